// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace triax {

/// What stands in a graph for a tensor that autograd saved for backward.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  /// The tensor again: its bits, sizes and strides. May be called more than
  /// once, by any thread that runs the graph's backward. Throws what hindered
  /// it; backward then throws the same.
  virtual at::Tensor unpack() = 0;
};

/// Decides what becomes of the tensors that autograd saves.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;
  /// Null: the graph keeps the tensor itself. What this throws, the operation
  /// that saves throws.
  virtual std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) = 0;
};

/// Puts an engine in the place of autograd's default one that asks this
/// thread's SavedTensorScope about each tensor that is saved: by LibTorch's own
/// operations, and by save_for_backward(). For the whole process and for good,
/// so a program's choice and not a library's. Once is enough, more does
/// nothing; starts no thread. Python's own engine would replace it.
void install_saved_tensor_hooks();
bool has_saved_tensor_hooks();

/// In it, this thread's graphs keep what `keeper` makes of their tensors.
/// Backward throws Error where one of them was changed in place since. Needs
/// install_saved_tensor_hooks(). One inside another replaces it.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorKeeper& keeper);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorKeeper* const outer_;
};

}  // namespace triax
