// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace triax {

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    throw std::runtime_error("cannot write " + path);
  }
}

template <class T>
void append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

/// Documents of sequences of tokens, in Megatron-LM's two files.
using Documents = std::vector<std::vector<std::vector<int64_t>>>;

struct WrittenSet {
  std::string bin;
  std::string idx;
};

/// Written from the format's description, not from the reader.
inline WrittenSet write_set(const Documents& documents,
                            uint8_t code = 8,
                            bool has_modes = false) {
  std::string bin;
  std::string lengths;
  std::string offsets;
  std::string boundaries;
  int64_t num_sequences = 0;
  append<int64_t>(boundaries, 0);
  for (const auto& document : documents) {
    for (const auto& sequence : document) {
      append(lengths, static_cast<int32_t>(sequence.size()));
      append(offsets, static_cast<int64_t>(bin.size()));
      for (int64_t token : sequence) {
        switch (code) {
          case 1:
          case 2:
            append(bin, static_cast<uint8_t>(token));
            break;
          case 3:
          case 8:
            append(bin, static_cast<uint16_t>(token));
            break;
          case 4:
            append(bin, static_cast<int32_t>(token));
            break;
          default:
            append(bin, token);
        }
      }
      ++num_sequences;
    }
    append(boundaries, num_sequences);
  }
  std::string idx("MMIDIDX\0\0", 9);
  append<uint64_t>(idx, 1);
  append(idx, code);
  append(idx, static_cast<uint64_t>(num_sequences));
  append(idx, static_cast<uint64_t>(documents.size() + 1));
  idx += lengths + offsets + boundaries;
  if (has_modes) {
    idx.append(static_cast<size_t>(num_sequences), '\0');
  }
  return {bin, idx};
}

inline void save_set(const std::string& prefix, const WrittenSet& set) {
  write_bytes(prefix + ".bin", set.bin);
  write_bytes(prefix + ".idx", set.idx);
}

}  // namespace triax
