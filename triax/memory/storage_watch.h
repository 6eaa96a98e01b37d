// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace triax {

/// Tells when operations of LibTorch use the memory of some tensors, through
/// whichever tensor: a view, what a graph saved, one in a list, one that is
/// written (in place, out=). Forward and backward, on any thread.
///
/// Operations call operations: between an operation's two calls come those of
/// the ones it consists of. What the calls themselves run is not told. Memory
/// that is reached by a pointer alone is not seen, nor what the kernels of an
/// operation read beside its arguments.
///
/// While one of these lives, every operation of the process takes about 0.6 µs
/// more: LibTorch packs its arguments for the look.
class StorageWatch {
 public:
  /// The keys of the storages that an operation uses, each once.
  using Call = std::function<void(std::span<const int> keys)>;

  /// `before` is called before an operation runs, on its thread, `after` when
  /// it has ended, by whatever way. What they throw stops no operation: it is
  /// kept for take_failure(), the first one. Where an operation is told to
  /// several watches, the one made last is told first.
  StorageWatch(Call before, Call after);
  ~StorageWatch();
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

  /// The tensor's storage must live until remove(), or as long as this, and be
  /// in no other watch.
  void add(const at::Tensor& tensor, int key);

  /// Whether the tensor's storage is in any watch.
  static bool is_watched(const at::Tensor& tensor);

  /// No longer: the storage may end now.
  void remove(const c10::Storage& storage);

  /// What a call threw, once; else null.
  std::exception_ptr take_failure();

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace triax
