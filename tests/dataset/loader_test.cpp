// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "tests/dataset/written_set.h"
#include "triax/base/error.h"

namespace triax {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Tokens 0, 1, 2, … in documents of the given lengths.
std::shared_ptr<const TokenFile> make_file(
    const ScratchFolder& folder, const std::vector<int64_t>& lengths) {
  Documents documents;
  int64_t token = 0;
  for (int64_t length : lengths) {
    std::vector<int64_t> sequence(static_cast<size_t>(length));
    std::iota(sequence.begin(), sequence.end(), token);
    token += length;
    documents.push_back({sequence});
  }
  save_set(folder.file("set"), write_set(documents, 4));
  return open_token_file(folder.file("set"));
}

Range whole(const TokenFile& file) {
  return {0, file.num_tokens()};
}

BatchOptions make_options() {
  return {.sequence_length = 4,
          .global_batch_size = 2,
          .microbatch_size = 2,
          .dp = 1,
          .dp_rank = 0,
          .mask_document_ends = false,
          .vocab_size = 100000};
}

TEST(BatchReader, LabelsAreTheNextTokensAndSamplesShareOne) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {14});
  const BatchReader reader(file, whole(*file), make_options());
  EXPECT_EQ(reader.num_samples(), 3);  // 13 tokens suffice
  const std::vector<int64_t> batch = {1, 0};
  const StepData step = reader.read(batch);
  ASSERT_EQ(step.microbatches.size(), 1u);
  const MicrobatchData& data = step.microbatches[0];
  EXPECT_THAT(data.tokens, ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
  EXPECT_THAT(data.labels, ElementsAre(5, 6, 7, 8, 1, 2, 3, 4));
  EXPECT_THAT(data.sample_ids, ElementsAre(1, 0));
  EXPECT_THAT(data.document_ids, IsEmpty());
  EXPECT_EQ(data.num_valid_tokens, 8);
  EXPECT_EQ(step.num_valid_tokens, 8);
}

TEST(BatchReader, StaysWithinItsRange) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {30});
  const BatchReader reader(file, {10, 9}, make_options());
  EXPECT_EQ(reader.num_samples(), 2);
  const std::vector<int64_t> batch = {0, 1};
  const StepData step = reader.read(batch);
  EXPECT_THAT(step.microbatches[0].tokens,
              ElementsAre(10, 11, 12, 13, 14, 15, 16, 17));
}

TEST(BatchReader, MasksLabelsThatBeginADocument) {
  const ScratchFolder folder;
  // Documents 0-2, 3, 4-8.
  const auto file = make_file(folder, {3, 1, 0, 5});
  BatchOptions options = make_options();
  options.mask_document_ends = true;
  const BatchReader reader(file, whole(*file), options);
  const std::vector<int64_t> batch = {0, 1};
  const StepData step = reader.read(batch);
  const MicrobatchData& data = step.microbatches[0];
  EXPECT_THAT(data.tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(data.labels, ElementsAre(1, 2, -100, -100, 5, 6, 7, 8));
  EXPECT_THAT(data.document_ids, ElementsAre(0, 0, 0, 1, 2, 2, 2, 2));
  EXPECT_EQ(data.num_valid_tokens, 6);
  EXPECT_EQ(step.num_valid_tokens, 6);
}

TEST(BatchReader, NamesATokenOutsideTheVocabulary) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {20});
  BatchOptions options = make_options();
  options.vocab_size = 7;
  const BatchReader reader(file, whole(*file), options);
  const std::vector<int64_t> batch = {0, 1};
  EXPECT_THAT([&] { reader.read(batch); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("token number 7 is 7, outside model.vocab_size")));
}

TEST(BatchReader, RefusesABatchThatDoesNotDivide) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {20});
  BatchOptions options = make_options();
  options.dp = 2;
  EXPECT_THROW(BatchReader(file, whole(*file), options), Error);
}

// Every rank must divide by the same count, of all replicas, and the count of
// the microbatches must add up to it.
TEST(BatchReader, EveryReplicaKnowsTheGlobalCountOfValidTokens) {
  EXPECT_TRUE(rc::check("counts", [] {
    const ScratchFolder folder;
    const auto lengths = *rc::gen::container<std::vector<int64_t>>(
        80, rc::gen::inRange<int64_t>(0, 12));
    const auto file = make_file(folder, lengths);
    BatchOptions options = make_options();
    options.microbatch_size = *rc::gen::inRange<int64_t>(1, 3);
    options.dp = *rc::gen::inRange(1, 4);
    options.global_batch_size = 2 * options.microbatch_size * options.dp;
    options.mask_document_ends = *rc::gen::arbitrary<bool>();
    const int64_t available = (file->num_tokens() - 1) / 4;
    RC_PRE(available >= options.global_batch_size);
    std::vector<int64_t> batch(static_cast<size_t>(options.global_batch_size),
                               kPaddingSample);
    const auto filled = *rc::gen::inRange<size_t>(0, batch.size() + 1);
    std::iota(batch.begin(), batch.begin() + static_cast<int64_t>(filled), 0);
    int64_t sum = 0;
    std::vector<int64_t> counts;
    for (options.dp_rank = 0; options.dp_rank < options.dp; ++options.dp_rank) {
      const StepData step =
          BatchReader(file, whole(*file), options).read(batch);
      RC_ASSERT(step.microbatches.size() == 2u);
      counts.push_back(step.num_valid_tokens);
      for (const MicrobatchData& data : step.microbatches) {
        sum += data.num_valid_tokens;
      }
    }
    for (int64_t count : counts) {
      RC_ASSERT(count == sum);
    }
  }));
}

Loader::Options make_loader_options() {
  return {.batch = make_options(), .seed = 3, .prefetch_steps = 2};
}

std::vector<int64_t> samples_of(const StepData& step) {
  std::vector<int64_t> samples;
  for (const MicrobatchData& data : step.microbatches) {
    samples.insert(
        samples.end(), data.sample_ids.begin(), data.sample_ids.end());
  }
  return samples;
}

TEST(Loader, GivesTheSamplersBatchesOverManyEpochs) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {45});  // 11 samples, 5 batches
  Loader loader(file, whole(*file), make_loader_options());
  const Sampler sampler({.num_samples = 11, .global_batch_size = 2, .seed = 3});
  Cursor cursor;
  for (int64_t step = 0; step < 23; ++step) {
    const StepData data = loader.next();
    EXPECT_EQ(data.begin, sampler.cursor_at_step(step));
    EXPECT_EQ(data.end, sampler.cursor_at_step(step + 1));
    EXPECT_EQ(samples_of(data), sampler.batch_at(cursor));
    cursor = data.end;
  }
}

TEST(Loader, ContinuesFromACursor) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {45});
  Loader unbroken(file, whole(*file), make_loader_options());
  Cursor cursor;
  for (int i = 0; i < 8; ++i) {
    cursor = unbroken.next().end;
  }
  Loader resumed(file, whole(*file), make_loader_options(), cursor);
  for (int i = 0; i < 12; ++i) {
    const StepData a = unbroken.next();
    const StepData b = resumed.next();
    EXPECT_EQ(samples_of(a), samples_of(b));
    EXPECT_EQ(a.microbatches[0].tokens, b.microbatches[0].tokens);
  }
}

TEST(Loader, ReplicasTogetherReadTheBatchOfOne) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {200});
  Loader::Options options = make_loader_options();
  options.batch.global_batch_size = 12;
  options.batch.microbatch_size = 3;
  Loader one(file, whole(*file), options);
  options.batch.dp = 3;
  options.batch.microbatch_size = 2;
  std::vector<std::unique_ptr<Loader>> replicas;
  for (int rank = 0; rank < 3; ++rank) {
    options.batch.dp_rank = rank;
    replicas.push_back(std::make_unique<Loader>(file, whole(*file), options));
  }
  for (int step = 0; step < 9; ++step) {
    std::vector<int64_t> samples;
    for (auto& replica : replicas) {
      const auto part = samples_of(replica->next());
      samples.insert(samples.end(), part.begin(), part.end());
    }
    EXPECT_EQ(samples, samples_of(one.next()));
  }
}

TEST(Loader, RethrowsTheReadersErrorAfterTheStepsBeforeIt) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {20});
  Loader::Options options = make_loader_options();
  options.batch.vocab_size = 16;  // sample 3 holds token 16
  options.batch.global_batch_size = options.batch.microbatch_size = 1;
  Loader loader(file, whole(*file), options);
  const auto read_an_epoch = [&] {
    for (int i = 0; i < 4; ++i) {
      loader.next();
    }
  };
  EXPECT_THAT(read_an_epoch,
              testing::ThrowsMessage<Error>(HasSubstr("token number 16")));
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, EndsWhileTheReaderWaits) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {200});
  for (int i = 0; i < 50; ++i) {
    Loader loader(file, whole(*file), make_loader_options());
    if (i % 2 == 0) {
      loader.next();
    }
  }
}

TEST(ValidationSet, FillsTheLastBatchWithIgnoredRows) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {23});  // 5 samples
  BatchOptions options = make_options();
  options.global_batch_size = 4;
  options.dp = 2;
  std::vector<StepData> steps;
  for (options.dp_rank = 0; options.dp_rank < 2; ++options.dp_rank) {
    const ValidationSet set(file, whole(*file), options);
    ASSERT_EQ(set.num_batches(), 2);
    EXPECT_EQ(set.batch(0).num_valid_tokens, 16);
    steps.push_back(set.batch(1));
    EXPECT_EQ(steps.back().num_valid_tokens, 4);
  }
  const MicrobatchData& first = steps[0].microbatches[0];
  EXPECT_THAT(first.sample_ids, ElementsAre(4, -1));
  EXPECT_THAT(first.tokens, ElementsAre(16, 17, 18, 19, 0, 0, 0, 0));
  EXPECT_THAT(first.labels,
              ElementsAre(17, 18, 19, 20, -100, -100, -100, -100));
  const MicrobatchData& second = steps[1].microbatches[0];
  EXPECT_THAT(second.labels, Each(kIgnoredLabel));
  EXPECT_EQ(second.labels.size(), 8u);
  EXPECT_EQ(second.num_valid_tokens, 0);
}

TEST(ValidationSet, CanBeSmallerThanABatchAndBeLimited) {
  const ScratchFolder folder;
  const auto file = make_file(folder, {50});
  BatchOptions options = make_options();
  options.global_batch_size = 64;
  EXPECT_EQ(ValidationSet(file, whole(*file), options).num_batches(), 1);
  options.global_batch_size = 2;
  EXPECT_EQ(ValidationSet(file, whole(*file), options).num_batches(), 6);
  EXPECT_EQ(ValidationSet(file, whole(*file), options, 4).num_batches(), 4);
  EXPECT_THROW(ValidationSet(file, {0, 4}, options), Error);
}

}  // namespace
}  // namespace triax
