// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/vocabulary_scan.h"

#include <gtest/gtest.h>

#include "tests/dataset/written_set.h"

namespace triax {
namespace {

class VocabularyScan : public testing::Test {
 protected:
  std::shared_ptr<const TokenFile> file_of(const std::vector<int64_t>& tokens,
                                           uint8_t code) {
    save_set(folder_.file("set"), write_set({{tokens}}, code));
    return open_token_file(folder_.file("set"));
  }

  ScratchFolder folder_;
};

TEST_F(VocabularyScan, NamesTheFirstAndTheLargest) {
  const auto file = file_of({3, 7, 9, 50256, 8}, 8);
  EXPECT_FALSE(find_token_outside(*file, {0, 5}, 50257, 1 << 20));
  const auto found = find_token_outside(*file, {0, 5}, 9, 1 << 20);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->position, 2);
  EXPECT_EQ(found->token, 9);
  EXPECT_EQ(found->largest, 50256);
  EXPECT_FALSE(find_token_outside(*file, {0, 2}, 9, 1 << 20));
  EXPECT_EQ(find_token_outside(*file, {3, 2}, 9, 1 << 20)->position, 3);
  EXPECT_FALSE(find_token_outside(*file, {3, 0}, 9, 1 << 20));
}

TEST_F(VocabularyScan, ANegativeTokenIsOutside) {
  const auto file = file_of({3, -1, 4}, 4);
  EXPECT_EQ(find_token_outside(*file, {0, 3}, 100, 1 << 20)->token, -1);
}

TEST_F(VocabularyScan, LooksAtBothEndsOfAFileThatIsTooLong) {
  std::vector<int64_t> tokens(300'000, 5);
  tokens.back() = 200;
  const auto last = file_of(tokens, 8);
  EXPECT_EQ(find_token_outside(*last, {0, 300'000}, 100, 1)->position, 299'999);
  tokens.back() = 5;
  tokens.front() = 200;
  const auto first = file_of(tokens, 8);
  EXPECT_EQ(find_token_outside(*first, {0, 300'000}, 100, 1)->position, 0);
  tokens.front() = 5;
  tokens[150'000] = 200;
  const auto middle = file_of(tokens, 8);
  EXPECT_FALSE(find_token_outside(*middle, {0, 300'000}, 100, 1));
  EXPECT_EQ(find_token_outside(*middle, {0, 300'000}, 100, 1 << 20)->position,
            150'000);
}

}  // namespace
}  // namespace triax
