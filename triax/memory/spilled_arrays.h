// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "triax/base/piece.h"
#include "triax/memory/spill_file.h"

namespace triax {

/// Ranges of SpilledArrays begin and end at multiples of so many elements: of
/// the narrowest type (two bytes) they fill kIoAlignment.
inline constexpr int64_t kSpillAlignment = kIoAlignment / 2;

/// Elements of a window. Larger ones move no more bytes a second (1 MiB of fp32
/// in each request, some requests at a time), and take more memory.
inline constexpr int64_t kWindowNumel = int64_t{1} << 18;

/// Windows in memory: two are read ahead, one is used, one is written.
inline constexpr int kNumWindows = 4;

struct SpilledArray {
  std::string name;  // "exp_avg"
  at::ScalarType dtype = at::kFloat;
};

struct SpilledArraysOptions {
  SpillFileOptions file = {};
  int64_t window_numel = kWindowNumel;  // a multiple of kSpillAlignment
};

/// What one pass over the arrays does with them, by their numbers.
struct WindowPass {
  Range elements;
  std::vector<int> reads;
  /// What is written and not read begins as zeros.
  std::vector<int> writes;
};

/// A part of the arrays that is in memory.
struct ArrayWindow {
  Range elements;
  /// By array, one dim; undefined where the pass has no use of it.
  std::vector<at::Tensor> arrays;
};

/// Arrays of equally many elements that lie on file, in windows of which they
/// come to memory: see SpillFile. All begin as zeros. One thread at a time.
class SpilledArrays {
 public:
  /// `numel` must be a multiple of kSpillAlignment. Throws Error as SpillFile
  /// does.
  SpilledArrays(const std::string& dir,
                int64_t numel,
                std::vector<SpilledArray> arrays,
                const SpilledArraysOptions& options = {});

  /// Calls `body` for one window after the other, from the range's start on,
  /// while the next ones are read and the last ones written. All is written at
  /// the end. The windows' memory counts in the category of the scopes.
  void for_each_window(const WindowPass& pass,
                       const std::function<void(const ArrayWindow&)>& body);

  /// Parts of one array; the memory is make_io_buffer()'s, of io_bytes().
  IoRequest read(int array, const Range& elements, const at::Tensor& memory);
  IoRequest write(int array, const Range& elements, const at::Tensor& memory);
  int64_t io_bytes(int array, const Range& elements) const {
    return elements.length * element_bytes(array);
  }

  at::ScalarType dtype(int array) const { return arrays_[array].dtype; }
  int64_t nbytes() const { return file_.nbytes(); }
  int64_t nbytes(int array) const { return numel_ * element_bytes(array); }
  const SpillFile& file() const { return file_; }

 private:
  struct Slot;

  void start_reading(Slot& slot, const WindowPass& pass, const Range& elements);
  ArrayWindow window_of(const Slot& slot, const Range& elements) const;
  int64_t element_bytes(int array) const;

  const int64_t numel_;
  const std::vector<SpilledArray> arrays_;
  const int64_t window_numel_;
  std::vector<int64_t> starts_;  // by array, in bytes
  SpillFile file_;
};

}  // namespace triax
