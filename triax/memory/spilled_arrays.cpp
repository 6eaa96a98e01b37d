// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/spilled_arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/memory/io_buffer.h"

namespace triax {
namespace {

constexpr int kWindowsAhead = kNumWindows - 2;

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

int64_t bytes_of(const std::vector<SpilledArray>& arrays, int64_t numel) {
  int64_t nbytes = 0;
  for (const SpilledArray& array : arrays) {
    nbytes += numel * static_cast<int64_t>(c10::elementSize(array.dtype));
  }
  return nbytes;
}

}  // namespace

/// A window's memory. Its requests end before it.
struct SpilledArrays::Slot {
  std::vector<at::Tensor> buffers;  // by array; undefined: not in the pass
  std::vector<IoRequest> requests;

  void wait() {
    for (IoRequest& request : requests) {
      request.wait();
    }
    requests.clear();
  }
};

SpilledArrays::SpilledArrays(const std::string& dir,
                             int64_t numel,
                             std::vector<SpilledArray> arrays,
                             const SpilledArraysOptions& options)
    : numel_(numel),
      arrays_(std::move(arrays)),
      window_numel_(options.window_numel),
      file_(dir, bytes_of(arrays_, numel), options.file) {
  TRIAX_CHECK(numel_ % kSpillAlignment == 0 && window_numel_ > 0 &&
                  window_numel_ % kSpillAlignment == 0,
              numel_,
              " elements in windows of ",
              window_numel_);
  int64_t start = 0;
  for (size_t array = 0; array < arrays_.size(); ++array) {
    starts_.push_back(start);
    start += nbytes(static_cast<int>(array));
  }
}

int64_t SpilledArrays::element_bytes(int array) const {
  return static_cast<int64_t>(c10::elementSize(arrays_[array].dtype));
}

IoRequest SpilledArrays::read(int array,
                              const Range& elements,
                              const at::Tensor& memory) {
  return file_.read(starts_[array] + elements.start * element_bytes(array),
                    memory.data_ptr(),
                    io_bytes(array, elements));
}

IoRequest SpilledArrays::write(int array,
                               const Range& elements,
                               const at::Tensor& memory) {
  return file_.write(starts_[array] + elements.start * element_bytes(array),
                     memory.data_ptr(),
                     io_bytes(array, elements));
}

void SpilledArrays::start_reading(Slot& slot,
                                  const WindowPass& pass,
                                  const Range& elements) {
  slot.wait();  // for what was written from it
  for (const int array : pass.reads) {
    slot.requests.push_back(read(array, elements, slot.buffers[array]));
  }
}

ArrayWindow SpilledArrays::window_of(const Slot& slot,
                                     const Range& elements) const {
  ArrayWindow window{elements, std::vector<at::Tensor>(arrays_.size())};
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (slot.buffers[i].defined()) {
      window.arrays[i] =
          elements_of(slot.buffers[i], 0, elements.length, arrays_[i].dtype);
    }
  }
  return window;
}

void SpilledArrays::for_each_window(
    const WindowPass& pass,
    const std::function<void(const ArrayWindow&)>& body) {
  const Range& all = pass.elements;
  TRIAX_CHECK(all.start % kSpillAlignment == 0 &&
                  all.length % kSpillAlignment == 0 &&
                  all.start + all.length <= numel_,
              all.length,
              " elements from ",
              all.start);
  const int64_t num_windows = divide_up(all.length, window_numel_);
  const auto elements = [&](int64_t window) {
    const int64_t start = window * window_numel_;
    return Range{all.start + start,
                 std::min(window_numel_, all.length - start)};
  };
  std::vector<Slot> slots(std::min<int64_t>(kNumWindows, num_windows));
  for (Slot& slot : slots) {
    slot.buffers.resize(arrays_.size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const int array = static_cast<int>(i);
      if (contains(pass.reads, array) || contains(pass.writes, array)) {
        slot.buffers[i] = make_io_buffer(std::min(window_numel_, all.length) *
                                         element_bytes(array));
      }
    }
  }
  const auto slot_of = [&](int64_t window) -> Slot& {
    return slots[window % kNumWindows];
  };
  for (int64_t window = 0; window < num_windows + kWindowsAhead; ++window) {
    if (window < num_windows) {
      start_reading(slot_of(window), pass, elements(window));
    }
    const int64_t used = window - kWindowsAhead;
    if (used < 0) {
      continue;
    }
    Slot& slot = slot_of(used);
    slot.wait();
    const ArrayWindow content = window_of(slot, elements(used));
    for (const int array : pass.writes) {
      if (!contains(pass.reads, array)) {
        std::memset(content.arrays[array].data_ptr(),
                    0,
                    content.arrays[array].nbytes());
      }
    }
    body(content);
    for (const int array : pass.writes) {
      slot.requests.push_back(
          write(array, content.elements, slot.buffers[array]));
    }
  }
  for (Slot& slot : slots) {
    slot.wait();
  }
}

}  // namespace triax
