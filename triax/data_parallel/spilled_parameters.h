// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "triax/memory/spilled_arrays.h"
#include "triax/plan/zero_stages.h"

namespace triax {

/// Where a rank's parts of the buckets lie on file: trained ones in an array
/// beside the optimizer's, frozen ones in another file.
struct PartPlace {
  SpilledArrays* arrays = nullptr;  // must outlive its user
  int array = 0;
  Range elements;  // whole blocks of the file
};

/// A rank's shard of the parameters on file (ZeRO 3). A part is read ahead of
/// its gathering. Nothing else may use the places meanwhile; forget() what was
/// read ahead before something does, such as an update.
class SpilledParameters {
 public:
  /// By bucket of the layout.
  SpilledParameters(std::vector<PartPlace> places, const FlatLayout& layout);

  /// The part will be taken.
  void expect(int bucket);
  /// A copy of a bucket's part: one dim.
  at::Tensor take(int bucket);
  void write(int bucket, const at::Tensor& part);
  void forget();

  int64_t nbytes() const;

 private:
  struct Transfer {
    at::Tensor memory;
    IoRequest request;  // ends before its memory
  };

  at::Tensor take_memory(int bucket) const;
  at::Tensor values_in(const at::Tensor& memory, int bucket) const;

  const std::vector<PartPlace> places_;
  std::vector<int64_t> numels_;
  std::map<int, Transfer> reads_;
};

}  // namespace triax
