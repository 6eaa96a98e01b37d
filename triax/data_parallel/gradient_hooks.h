// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace triax {

/// Calls `call` each time before autograd adds to the gradient of a leaf: it
/// may set grad() to what is to be added to. Stays with the parameter, which
/// has one such call: a second replaces the first. Hooks of others stay.
void before_gradient(const at::Tensor& parameter, std::function<void()> call);

/// Calls `call` each time after autograd has added to it. Stays with the
/// parameter, which has one such call: a second replaces the first.
void after_gradient(const at::Tensor& parameter, std::function<void()> call);

}  // namespace triax
