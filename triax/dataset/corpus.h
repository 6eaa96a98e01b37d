// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"
#include "triax/dataset/token_file.h"

namespace triax {

/// The tokens of a run: what it trains on and what it is judged by.
struct Corpus {
  std::shared_ptr<const TokenFile> training_file;
  Range training_tokens;
  /// Null when the run has no validation data.
  std::shared_ptr<const TokenFile> validation_file;
  Range validation_tokens;
};

/// Opens what [data] names. `validation`, a share, is taken from the end
/// (rounded down to whole tokens); no token is in both parts. Throws Error for
/// files that cannot be read, a share outside [0, 1), share and
/// validation_path both given, a part too short for one sample, and a
/// tokenizer other than "bytes" for text.
Corpus open_corpus(const DataConfig& config);

}  // namespace triax
