// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triax {

/// How one token stands in a file, little endian.
enum class TokenType : uint8_t { kU8, kI8, kI16, kI32, kI64, kU16 };

constexpr int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  return 0;
}

/// What is kept of a Megatron-LM `prefix.idx`: sequences lie one after the
/// other in `prefix.bin`, so that only the documents' starts matter.
struct MegatronIndex {
  TokenType type = TokenType::kI32;
  int64_t num_tokens = 0;
  /// The first token of each document that has tokens, ascending.
  std::vector<int64_t> document_starts;
};

/// Reads and checks an index; `bin_nbytes` is the size of its .bin.
///
/// Layout (megatron/core/datasets/indexed_dataset.py), little endian, without
/// padding, so that the arrays are misaligned:
///   0  "MMIDIDX\0\0"   9  u64 version 1   17  u8 token type
///   18 u64 S sequences   26 u64 D = documents + 1
///   34 i32[S] lengths, i64[S] byte offsets, i64[D] first sequence of each
///   document and last S; multimodal sets append i8[S] modes.
///
/// Throws Error, naming file, offset and rule, unless: magic and version are
/// these; the type is an integer one; the file has exactly the size its counts
/// announce (or that and modes, all 0); lengths are >= 0; each sequence begins
/// where the one before ends, and the last ends with the .bin; the documents
/// begin with 0, never decrease and end with S. Reads in blocks: memory is
/// bounded by the file's size (8 bytes a document), whatever it announces.
MegatronIndex read_megatron_index(const std::string& path, int64_t bin_nbytes);

}  // namespace triax
