// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "triax/base/ignored_label.h"
#include "triax/base/piece.h"
#include "triax/config/run_config.h"
#include "triax/dataset/sampler.h"
#include "triax/dataset/token_file.h"

// B microbatch size, S sequence length

namespace triax {

/// The sample number of a row that only fills a batch up.
inline constexpr int64_t kPaddingSample = -1;

/// What one microbatch of one replica reads. Row-major.
struct MicrobatchData {
  std::vector<int64_t> tokens;        // [B, S]
  std::vector<int64_t> labels;        // [B, S]; the next token, or ignored
  std::vector<int64_t> document_ids;  // [B, S]; empty unless asked for
  std::vector<int64_t> sample_ids;    // [B]
  int64_t num_valid_tokens = 0;       // labels that are not ignored
};

/// What one replica reads in one step.
struct StepData {
  Cursor begin;  // of its global batch
  Cursor end;    // what a checkpoint after the step keeps
  std::vector<MicrobatchData> microbatches;
  /// Of the whole global batch, all replicas: the divisor of loss and
  /// gradients. Every rank computes the same without communication.
  int64_t num_valid_tokens = 0;
};

struct BatchOptions {
  int64_t sequence_length = 128;
  int64_t global_batch_size = 1;
  int64_t microbatch_size = 1;
  int dp = 1;
  int dp_rank = 0;
  /// Labels that begin a document are ignored, and document_ids are given.
  bool mask_document_ends = false;
  /// Tokens must be below it.
  int64_t vocab_size = 0;
};

/// The options of replica `dp_rank` of a run; its batch must be resolved.
BatchOptions make_batch_options(const RunConfig& config, int dp_rank);

/// Cuts a range of a token file into samples and reads them. Sample i holds
/// the S + 1 tokens from i * S on (of the range): one token is shared with the
/// next sample, so that every token but the first is a label once.
class BatchReader {
 public:
  /// Throws Error when dp * microbatch_size does not divide the global batch.
  BatchReader(std::shared_ptr<const TokenFile> file,
              Range tokens,
              const BatchOptions& options);

  int64_t num_samples() const;

  /// Reads this replica's part of a global batch, given all sample numbers of
  /// it in order. kPaddingSample gives a row of token 0 whose labels are all
  /// ignored. Throws Error for a token outside the vocabulary, with its place.
  StepData read(std::span<const int64_t> global_batch) const;

  const BatchOptions& options() const { return options_; }
  const TokenFile& file() const { return *file_; }

 private:
  MicrobatchData read_microbatch(std::span<const int64_t> sample_ids) const;
  void append_sample(int64_t sample, MicrobatchData& data) const;
  void append_documents(int64_t first, MicrobatchData& data) const;
  int64_t first_token(int64_t sample) const;
  int64_t count_valid_tokens(int64_t sample) const;

  const std::shared_ptr<const TokenFile> file_;
  const Range tokens_;
  const BatchOptions options_;
};

}  // namespace triax
