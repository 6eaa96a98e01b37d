// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/dataset/written_set.h"
#include "triax/base/error.h"

namespace triax {
namespace {

using testing::HasSubstr;

DataConfig make_config(const ScratchFolder& folder) {
  write_bytes(folder.file("text"), std::string(1000, 'x'));
  DataConfig config;
  config.path = folder.file("text");
  config.sequence_length = 10;
  return config;
}

std::string error_of(const DataConfig& config) {
  try {
    open_corpus(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Corpus, TakesValidationFromTheEnd) {
  const ScratchFolder folder;
  DataConfig config = make_config(folder);
  config.validation = 0.0205;
  const Corpus corpus = open_corpus(config);
  EXPECT_EQ(corpus.training_tokens, (Range{0, 980}));
  EXPECT_EQ(corpus.validation_tokens, (Range{980, 20}));
  EXPECT_EQ(corpus.validation_file, corpus.training_file);
}

TEST(Corpus, WithoutValidationTrainsOnAll) {
  const ScratchFolder folder;
  const Corpus corpus = open_corpus(make_config(folder));
  EXPECT_EQ(corpus.training_tokens, (Range{0, 1000}));
  EXPECT_EQ(corpus.validation_file, nullptr);
}

TEST(Corpus, TakesValidationFromAFile) {
  const ScratchFolder folder;
  DataConfig config = make_config(folder);
  save_set(folder.file("held"), write_set({{{1, 2, 3, 4, 5, 6}}}));
  config.validation_path = folder.file("held");
  config.sequence_length = 5;
  const Corpus corpus = open_corpus(config);
  EXPECT_EQ(corpus.training_tokens, (Range{0, 1000}));
  EXPECT_EQ(corpus.validation_tokens, (Range{0, 6}));
}

TEST(Corpus, RefusesWhatItCannotDo) {
  const ScratchFolder folder;
  const DataConfig good = make_config(folder);
  DataConfig config = good;
  config.path.clear();
  EXPECT_THAT(error_of(config), HasSubstr("data.path is missing"));
  config = good;
  config.tokenizer = "some/folder";
  EXPECT_THAT(error_of(config), HasSubstr("data.tokenizer"));
  config = good;
  config.validation = 1.0;
  EXPECT_THAT(error_of(config), HasSubstr("data.validation (1)"));
  config = good;
  config.validation = 0.1;
  config.validation_path = config.path;
  EXPECT_THAT(error_of(config), HasSubstr("both given"));
  config = good;
  config.validation = 0.01;
  EXPECT_THAT(error_of(config), HasSubstr("10 tokens left for validation"));
  config = good;
  config.sequence_length = 1000;
  EXPECT_THAT(error_of(config), HasSubstr("1000 tokens left for training"));
}

}  // namespace
}  // namespace triax
