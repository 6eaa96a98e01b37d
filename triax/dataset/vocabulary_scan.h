// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triax/base/piece.h"
#include "triax/dataset/token_file.h"

namespace triax {

/// A token that the embedding has no row for.
struct TokenOutside {
  int64_t position = 0;  // in the file
  int64_t token = 0;
  int64_t largest = 0;  // of all tokens that were looked at
};

/// The first token of `tokens` outside [0, vocab_size) among those looked at:
/// all of them up to `max_tokens`, else as many in evenly spaced blocks, the
/// first and the last among them. Reads nothing where the file's type holds no
/// such token. Throws Error when the file cannot be read.
std::optional<TokenOutside> find_token_outside(const TokenFile& file,
                                               const Range& tokens,
                                               int64_t vocab_size,
                                               int64_t max_tokens);

}  // namespace triax
