// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/corpus.h"

#include "triax/base/error.h"
#include "triax/base/units.h"

namespace triax {
namespace {

void check_settings(const DataConfig& config) {
  if (config.path.empty()) {
    throw Error(
        "data.path is missing: give a text file or the prefix of a "
        "Megatron-LM .bin and .idx");
  }
  if (config.tokenizer != "bytes") {
    throw Error("data.tokenizer \"",
                config.tokenizer,
                "\" is not built; use \"bytes\", or a Megatron-LM set of "
                "tokens made elsewhere");
  }
  if (!(config.validation >= 0.0 && config.validation < 1.0)) {
    throw Error("data.validation (",
                config.validation,
                ") must be a share of the tokens, at least 0 and below 1");
  }
  if (config.validation > 0.0 && !config.validation_path.empty()) {
    throw Error(
        "data.validation and data.validation_path are both given; "
        "the validation data are either a share of data.path or a "
        "file of their own");
  }
}

void check_part(const char* what,
                const TokenFile& file,
                const Range& tokens,
                const DataConfig& config) {
  if (tokens.length > config.sequence_length) {
    return;
  }
  throw Error(file.path(),
              ": ",
              counted(tokens.length, "token"),
              " left for ",
              what,
              ", but one sample takes data.sequence_length + 1 = ",
              config.sequence_length + 1);
}

}  // namespace

Corpus open_corpus(const DataConfig& config) {
  check_settings(config);
  Corpus corpus;
  corpus.training_file = open_token_file(config.path);
  const int64_t num_tokens = corpus.training_file->num_tokens();
  const auto held_out =
      static_cast<int64_t>(config.validation * static_cast<double>(num_tokens));
  corpus.training_tokens = {0, num_tokens - held_out};
  if (config.validation > 0.0) {
    corpus.validation_file = corpus.training_file;
    corpus.validation_tokens = {num_tokens - held_out, held_out};
  } else if (!config.validation_path.empty()) {
    corpus.validation_file = open_token_file(config.validation_path);
    corpus.validation_tokens = {0, corpus.validation_file->num_tokens()};
  }
  check_part("training", *corpus.training_file, corpus.training_tokens, config);
  if (corpus.validation_file) {
    check_part("validation",
               *corpus.validation_file,
               corpus.validation_tokens,
               config);
  }
  return corpus;
}

}  // namespace triax
