// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace triax {

/// What memory is used for:
///   parameters     weights
///   gradients      the buffers in which they add up over a step
///   optimizer      its state
///   activations    what forward passes keep for backward, stage inputs too
///   communication  shared segments between ranks, and tensors that exist only
///                  to be received or sent
///   temporary      all else: gradients of activations, kernels' scratch
/// Which one a block counts as is said by scopes (memory/tracker.h).
enum class MemoryCategory : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kTemporary,
};

inline constexpr std::array<std::string_view, 6> kMemoryCategoryNames = {
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "communication",
    "temporary"};

inline constexpr size_t kNumMemoryCategories = kMemoryCategoryNames.size();

constexpr std::string_view memory_category_name(MemoryCategory category) {
  return kMemoryCategoryNames[static_cast<size_t>(category)];
}

/// Bytes by category.
struct MemoryBytes {
  std::array<int64_t, kNumMemoryCategories> by_category = {};

  int64_t& operator[](MemoryCategory category) {
    return by_category[static_cast<size_t>(category)];
  }
  int64_t operator[](MemoryCategory category) const {
    return by_category[static_cast<size_t>(category)];
  }
  int64_t total() const;

  bool operator==(const MemoryBytes&) const = default;
};

/// "parameters 20.0 MiB, temporary 1.5 MiB": without what is 0.
std::string to_text(const MemoryBytes& bytes);

}  // namespace triax
