// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/vocabulary_scan.h"

#include <algorithm>
#include <vector>

#include "triax/base/error.h"
#include "triax/base/rounding.h"

namespace triax {
namespace {

constexpr int64_t kBlockTokens = 1 << 16;

// Whether every value of the type is an id of the vocabulary.
bool holds_only_ids(TokenType type, int64_t vocab_size) {
  const bool is_unsigned = type == TokenType::kU8 || type == TokenType::kU16;
  return is_unsigned && vocab_size >= int64_t{1} << (8 * token_bytes(type));
}

// Where the blocks begin: each next to the other, or spread over the range.
std::vector<int64_t> block_starts(const Range& tokens, int64_t max_tokens) {
  const int64_t num_blocks = divide_up(tokens.length, kBlockTokens);
  const int64_t num_read =
      std::min(num_blocks, std::max<int64_t>(max_tokens / kBlockTokens, 2));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < num_read; ++i) {
    const int64_t block =
        num_read == 1
            ? 0
            : static_cast<int64_t>(static_cast<double>(i) *
                                   static_cast<double>(num_blocks - 1) /
                                   static_cast<double>(num_read - 1));
    starts.push_back(tokens.start + block * kBlockTokens);
  }
  return starts;
}

}  // namespace

std::optional<TokenOutside> find_token_outside(const TokenFile& file,
                                               const Range& tokens,
                                               int64_t vocab_size,
                                               int64_t max_tokens) {
  TRIAX_CHECK(vocab_size >= 1 && tokens.length >= 0, vocab_size);
  if (holds_only_ids(file.type(), vocab_size)) {
    return std::nullopt;
  }
  std::optional<TokenOutside> found;
  int64_t largest = 0;
  std::vector<int64_t> block;
  for (const int64_t start : block_starts(tokens, max_tokens)) {
    const int64_t end =
        std::min(start + kBlockTokens, tokens.start + tokens.length);
    block.resize(static_cast<size_t>(end - start));
    file.read(start, block);
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t token = block[i];
      largest = std::max(largest, token);
      if (!found && (token < 0 || token >= vocab_size)) {
        found = {.position = start + static_cast<int64_t>(i), .token = token};
      }
    }
  }
  if (found) {
    found->largest = largest;
  }
  return found;
}

}  // namespace triax
