// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace triax {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC11): 128 random bits that are a function of key and counter alone.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// One key out of several numbers; order matters.
PhiloxKey make_philox_key(std::initializer_list<uint64_t> words);
/// One key out of a seed and a name.
PhiloxKey make_philox_key(uint64_t seed, std::string_view name);

/// Calls philox for `words` with the last word = 0, 1, … and compares each
/// 32-bit result with `threshold`: keep[i] = result i >= threshold.
void philox_keep(PhiloxKey key,
                 std::array<uint32_t, 3> words,
                 uint32_t threshold,
                 bool* keep,
                 int64_t count);

}  // namespace triax
