// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <utility>

namespace triax {

/// A call among the saved data of an autograd Function, which take IValues.
/// These live as long as the graph: tensors that backward should free early
/// belong in save_for_backward().
template <class Signature>
struct SavedCall : torch::CustomClassHolder {
  explicit SavedCall(std::function<Signature> call) : call(std::move(call)) {}
  std::function<Signature> call;
};

template <class Signature>
c10::IValue save_call(std::function<Signature> call) {
  return c10::IValue::make_capsule(
      c10::make_intrusive<SavedCall<Signature>>(std::move(call)));
}

/// What save_call() was given, of the same signature.
template <class Signature>
const std::function<Signature>& saved_call(const c10::IValue& value) {
  return c10::static_intrusive_pointer_cast<SavedCall<Signature>>(
             value.toCapsule())
      ->call;
}

}  // namespace triax
