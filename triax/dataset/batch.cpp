// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/batch.h"

#include <algorithm>
#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

void check_vocabulary(const TokenFile& file,
                      int64_t first,
                      std::span<const int64_t> tokens,
                      int64_t vocab_size) {
  const auto bad =
      std::find_if(tokens.begin(), tokens.end(), [vocab_size](int64_t token) {
        return token < 0 || token >= vocab_size;
      });
  if (bad != tokens.end()) {
    throw Error(file.path(),
                ": token number ",
                first + (bad - tokens.begin()),
                " is ",
                *bad,
                ", outside model.vocab_size (",
                vocab_size,
                "); give the vocabulary the data was made with");
  }
}

void append_padding(const BatchOptions& options, MicrobatchData& data) {
  const auto length = static_cast<size_t>(options.sequence_length);
  data.tokens.insert(data.tokens.end(), length, 0);
  data.labels.insert(data.labels.end(), length, kIgnoredLabel);
  if (options.mask_document_ends) {
    data.document_ids.insert(data.document_ids.end(), length, 0);
  }
}

}  // namespace

BatchOptions make_batch_options(const RunConfig& config, int dp_rank) {
  return {.sequence_length = config.data.sequence_length,
          .global_batch_size = config.training.global_batch_size,
          .microbatch_size = config.training.microbatch_size,
          .dp = config.parallel.dp,
          .dp_rank = dp_rank,
          .mask_document_ends = config.data.mask_document_ends,
          .vocab_size = config.model.vocab_size};
}

BatchReader::BatchReader(std::shared_ptr<const TokenFile> file,
                         Range tokens,
                         const BatchOptions& options)
    : file_(std::move(file)), tokens_(tokens), options_(options) {
  TRIAX_CHECK(options.sequence_length >= 1, options.sequence_length);
  TRIAX_CHECK(options.microbatch_size >= 1 && options.dp >= 1, options.dp);
  TRIAX_CHECK(options.dp_rank >= 0 && options.dp_rank < options.dp,
              options.dp_rank);
  TRIAX_CHECK(tokens.start >= 0 && tokens.length >= 0 &&
                  tokens.length <= file_->num_tokens() - tokens.start,
              tokens.start,
              " + ",
              tokens.length);
  const int64_t unit = options.microbatch_size * options.dp;
  if (options.global_batch_size < 1 || options.global_batch_size % unit != 0) {
    throw Error("training.global_batch_size (",
                options.global_batch_size,
                ") must be a multiple of microbatch_size × dp (",
                options.microbatch_size,
                " × ",
                options.dp,
                ")");
  }
}

int64_t BatchReader::num_samples() const {
  return std::max<int64_t>(0, tokens_.length - 1) / options_.sequence_length;
}

int64_t BatchReader::first_token(int64_t sample) const {
  TRIAX_CHECK(sample >= 0 && sample < num_samples(), sample);
  return tokens_.start + sample * options_.sequence_length;
}

StepData BatchReader::read(std::span<const int64_t> global_batch) const {
  TRIAX_CHECK(
      static_cast<int64_t>(global_batch.size()) == options_.global_batch_size,
      global_batch.size());
  StepData step;
  const int64_t num_microbatches =
      options_.global_batch_size / (options_.microbatch_size * options_.dp);
  for (int64_t k = 0; k < num_microbatches; ++k) {
    const BatchPart part = {.dp = options_.dp,
                            .dp_rank = options_.dp_rank,
                            .microbatch_size = options_.microbatch_size,
                            .microbatch = k};
    step.microbatches.push_back(
        read_microbatch(microbatch_of(global_batch, part)));
  }
  for (int64_t sample : global_batch) {
    step.num_valid_tokens += count_valid_tokens(sample);
  }
  return step;
}

MicrobatchData BatchReader::read_microbatch(
    std::span<const int64_t> sample_ids) const {
  MicrobatchData data;
  data.sample_ids.assign(sample_ids.begin(), sample_ids.end());
  const size_t numel =
      sample_ids.size() * static_cast<size_t>(options_.sequence_length);
  data.tokens.reserve(numel);
  data.labels.reserve(numel);
  data.document_ids.reserve(options_.mask_document_ends ? numel : 0);
  for (int64_t sample : sample_ids) {
    if (sample == kPaddingSample) {
      append_padding(options_, data);
    } else {
      append_sample(sample, data);
    }
  }
  data.num_valid_tokens =
      static_cast<int64_t>(numel) -
      std::count(data.labels.begin(), data.labels.end(), kIgnoredLabel);
  return data;
}

void BatchReader::append_sample(int64_t sample, MicrobatchData& data) const {
  const int64_t first = first_token(sample);
  std::vector<int64_t> span(static_cast<size_t>(options_.sequence_length + 1));
  file_->read(first, span);
  check_vocabulary(*file_, first, span, options_.vocab_size);
  data.tokens.insert(data.tokens.end(), span.begin(), span.end() - 1);
  data.labels.insert(data.labels.end(), span.begin() + 1, span.end());
  if (options_.mask_document_ends) {
    append_documents(first, data);
  }
}

void BatchReader::append_documents(int64_t first, MicrobatchData& data) const {
  const int64_t length = options_.sequence_length;
  const auto row = static_cast<int64_t>(data.document_ids.size());
  int64_t document = file_->document_of(first);
  for (int64_t start : file_->document_starts(first + 1, length)) {
    const int64_t position = row + start - first;  // of the new document
    data.labels[static_cast<size_t>(position - 1)] = kIgnoredLabel;
    data.document_ids.resize(static_cast<size_t>(position), document);
    ++document;
  }
  data.document_ids.resize(static_cast<size_t>(row + length), document);
}

int64_t BatchReader::count_valid_tokens(int64_t sample) const {
  if (sample == kPaddingSample) {
    return 0;
  }
  const int64_t length = options_.sequence_length;
  if (!options_.mask_document_ends) {
    return length;
  }
  const int64_t first = first_token(sample);
  return length -
         static_cast<int64_t>(file_->document_starts(first + 1, length).size());
}

}  // namespace triax
