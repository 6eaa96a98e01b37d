// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "triax/base/error.h"
#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/config/problem.h"
#include "triax/dataset/corpus.h"
#include "triax/dataset/vocabulary_scan.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

// Empty when the file can be read.
std::string file_trouble(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return "there is no file " + in_quotes(path);
  }
  if (!fs::is_regular_file(status)) {
    return in_quotes(path) + " is no regular file";
  }
  return ::access(path.c_str(), R_OK) == 0
             ? ""
             : in_quotes(path) + " may not be read";
}

bool is_token_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path + ".idx", error);
}

// Tokens of a text file, one for each byte; -1: it cannot be read.
int64_t check_data(Findings& findings,
                   const std::string& key,
                   const std::string& path) {
  std::error_code error;
  if (is_token_file(path)) {
    for (const char* extension : {".idx", ".bin"}) {
      const std::string trouble = file_trouble(path + extension);
      if (!trouble.empty()) {
        findings.error("data-path", key, trouble, "give the right prefix");
      }
    }
    return -1;
  }
  const std::string trouble = file_trouble(path);
  if (!trouble.empty()) {
    findings.error("data-path",
                   key,
                   trouble,
                   "give a text file, or the prefix of a .bin and an .idx");
    return -1;
  }
  if (findings.config.model.vocab_size < 256) {
    findings.error("vocab-too-small",
                   "model.vocab_size",
                   fmt::format("vocab_size {} has no place for the 256 bytes "
                               "of the tokenizer \"bytes\"",
                               findings.config.model.vocab_size),
                   "use 256 or more");
  }
  return static_cast<int64_t>(fs::file_size(path, error));
}

void check_length(Findings& findings,
                  const std::string& key,
                  const char* part,
                  int64_t num_tokens) {
  const int64_t needed = findings.config.data.sequence_length + 1;
  if (num_tokens < needed) {
    findings.error("data-too-short",
                   key,
                   fmt::format("{} left for {}, and one sample "
                               "takes sequence_length + 1 = {}",
                               counted(num_tokens, "token"),
                               part,
                               needed),
                   "use more data or a shorter sequence");
  }
}

// Some milliseconds of reading; ids beyond them are found by the loader.
constexpr int64_t kMaxTokensLookedAt = 1 << 22;

// False when an id was found that the embedding has no row for.
bool check_ids(Findings& findings, const TokenFile& file, const Range& tokens) {
  const int64_t vocab_size = findings.config.model.vocab_size;
  const auto outside =
      find_token_outside(file, tokens, vocab_size, kMaxTokensLookedAt);
  if (outside) {
    findings.error(
        "vocab-too-small",
        "model.vocab_size",
        fmt::format("token number {} of {} is {}, outside vocab_size {}",
                    outside->position,
                    file.path(),
                    outside->token,
                    vocab_size),
        outside->token < 0
            ? "make the data again: a token is never negative"
            : fmt::format("use the vocabulary that the data was made with, at "
                          "least {}",
                          outside->largest + 1));
  }
  return !outside;
}

// What only reading the files can find: the ranks would fail by it.
void open_all_data(Findings& findings) {
  const RunConfig& config = findings.config;
  try {
    const Corpus corpus = open_corpus(config.data);
    const int64_t num_samples =
        (corpus.training_tokens.length - 1) / config.data.sequence_length;
    if (num_samples < config.training.global_batch_size) {
      findings.error("data-too-short",
                     "data.path",
                     fmt::format("{} of {} cannot fill a global batch of {}",
                                 counted(num_samples, "sample"),
                                 counted(config.data.sequence_length, "token"),
                                 config.training.global_batch_size),
                     "use more data, a shorter sequence or a smaller batch");
    }
    const bool is_good =
        check_ids(findings, *corpus.training_file, corpus.training_tokens);
    if (is_good && corpus.validation_file != nullptr) {
      check_ids(findings, *corpus.validation_file, corpus.validation_tokens);
    }
  } catch (const Error& error) {
    findings.error(
        "data-path", "data.path", error.what(), "give files that can be read");
  }
}

void check_all_data(Findings& findings) {
  const DataConfig& data = findings.config.data;
  if (data.path.empty()) {
    findings.error("data-path",
                   "data.path",
                   "it is not set",
                   "give a text file, or the prefix of a .bin and an .idx");
    return;
  }
  const size_t num_before = findings.problems.size();
  const int64_t tokens = check_data(findings, "data.path", data.path);
  const auto held_out =
      static_cast<int64_t>(data.validation * static_cast<double>(tokens));
  if (tokens >= 0) {
    check_length(findings, "data.path", "training", tokens - held_out);
  }
  if (tokens >= 0 && data.validation > 0.0) {
    check_length(findings, "data.validation", "validation", held_out);
  }
  if (!data.validation_path.empty()) {
    const int64_t others =
        check_data(findings, "data.validation", data.validation_path);
    if (others >= 0) {
      check_length(findings, "data.validation", "validation", others);
    }
  } else if (data.validation == 0.0 &&
             findings.config.training.validate_every > 0) {
    findings.error("validation-missing",
                   "training.validate_every",
                   "there is nothing to validate with",
                   "give data.validation a share (0.02) or a path");
  }
  if (findings.problems.size() == num_before) {
    open_all_data(findings);
  }
}

void check_run_dir(Findings& findings) {
  const std::string& dir = findings.config.run.dir;
  std::error_code error;
  if (!dir.empty() && fs::exists(fs::symlink_status(dir, error))) {
    findings.error("run-dir-exists",
                   "run.dir",
                   in_quotes(dir) + " exists, and a run never overwrites one",
                   "use another, or leave run.dir out");
  }
}

}  // namespace

void check_files(Findings& findings) {
  check_all_data(findings);
  check_run_dir(findings);
}

}  // namespace triax
