// SPDX-License-Identifier: Apache-2.0
#include "triax/model/philox.h"

#include <algorithm>

namespace triax {
namespace {

constexpr int kLanes = 16;  // counters worked on side by side

/// The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t mix(uint64_t word) {
  word += 0x9E3779B97F4A7C15;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

struct Lanes {
  uint32_t word[4][kLanes];
};

__attribute__((target_clones("avx512f", "avx2", "default"),
               optimize("O3"))) void
philox_lanes(Lanes& lanes, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = uint64_t{0xD2511F53} * lanes.word[0][i];
      const uint64_t b = uint64_t{0xCD9E8D57} * lanes.word[2][i];
      const uint32_t first = static_cast<uint32_t>(b >> 32);
      const uint32_t third = static_cast<uint32_t>(a >> 32);
      lanes.word[0][i] = first ^ lanes.word[1][i] ^ key[0];
      lanes.word[2][i] = third ^ lanes.word[3][i] ^ key[1];
      lanes.word[1][i] = static_cast<uint32_t>(b);
      lanes.word[3][i] = static_cast<uint32_t>(a);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

}  // namespace

PhiloxKey make_philox_key(std::initializer_list<uint64_t> words) {
  uint64_t state = 0;
  for (const uint64_t word : words) {
    state = mix(state ^ mix(word));
  }
  return {static_cast<uint32_t>(state), static_cast<uint32_t>(state >> 32)};
}

PhiloxKey make_philox_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return make_philox_key({seed, hash});
}

void philox_keep(PhiloxKey key,
                 std::array<uint32_t, 3> words,
                 uint32_t threshold,
                 bool* keep,
                 int64_t count) {
  for (int64_t begin = 0; begin < count; begin += 4 * kLanes) {
    Lanes lanes;
    for (int i = 0; i < kLanes; ++i) {
      lanes.word[0][i] = words[0];
      lanes.word[1][i] = words[1];
      lanes.word[2][i] = words[2];
      lanes.word[3][i] = static_cast<uint32_t>(begin / 4 + i);
    }
    philox_lanes(lanes, key);
    const int64_t length = std::min<int64_t>(4 * kLanes, count - begin);
    for (int64_t i = 0; i < length; ++i) {
      keep[begin + i] = lanes.word[i % 4][i / 4] >= threshold;
    }
  }
}

}  // namespace triax
