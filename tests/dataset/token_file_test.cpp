// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <iterator>

#include "tests/dataset/written_set.h"
#include "triax/base/error.h"

namespace triax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string golden_file(const std::string& name) {
  return std::string(TRIAX_SOURCE_DIR) + "/tests/data/" + name;
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<int64_t> all_tokens(const TokenFile& file) {
  std::vector<int64_t> tokens(static_cast<size_t>(file.num_tokens()));
  file.read(0, tokens);
  return tokens;
}

std::vector<int64_t> all_starts(const TokenFile& file) {
  const auto starts = file.document_starts(0, file.num_tokens());
  return {starts.begin(), starts.end()};
}

std::string error_of(const std::string& path) {
  try {
    open_token_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The two documents [1, 2, 3] and [4, 5] as uint16, written by Megatron-LM.
TEST(TokenFile, ReadsMegatronsGoldenSet) {
  const auto file = open_token_file(golden_file("golden"));
  EXPECT_EQ(file->num_tokens(), 5);
  EXPECT_EQ(file->num_documents(), 2);
  EXPECT_THAT(all_tokens(*file), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(all_starts(*file), ElementsAre(0, 3));
  EXPECT_EQ(file->document_of(2), 0);
  EXPECT_EQ(file->document_of(3), 1);
}

TEST(TokenFile, TheTestsWriterWritesTheGoldenBytes) {
  const WrittenSet set = write_set({{{1, 2, 3}}, {{4, 5}}});
  EXPECT_EQ(set.idx.size(), 82u);
  EXPECT_EQ(set.idx, read_bytes(golden_file("golden.idx")));
  EXPECT_EQ(set.bin, read_bytes(golden_file("golden.bin")));
}

TEST(TokenFile, ReadsTextAsBytes) {
  const ScratchFolder folder;
  write_bytes(folder.file("a.txt"), std::string("a\0\xff\n", 4));
  const auto file = open_token_file(folder.file("a.txt"));
  EXPECT_THAT(all_tokens(*file), ElementsAre(97, 0, 255, 10));
  EXPECT_EQ(file->num_documents(), 1);
  EXPECT_EQ(file->document_of(3), 0);
  EXPECT_TRUE(file->document_starts(1, 3).empty());
}

TEST(TokenFile, AnEmptyTextHasNoTokens) {
  const ScratchFolder folder;
  write_bytes(folder.file("empty"), "");
  const auto file = open_token_file(folder.file("empty"));
  EXPECT_EQ(file->num_tokens(), 0);
  EXPECT_EQ(file->num_documents(), 0);
}

TEST(TokenFile, WidensEveryIntegerType) {
  const ScratchFolder folder;
  const std::vector<std::pair<uint8_t, std::vector<int64_t>>> cases = {
      {1, {0, 200, 255}},
      {2, {0, 100, -1}},
      {3, {0, 32767, -2}},
      {4, {0, 1 << 30, -3}},
      {5, {0, int64_t{1} << 40, -4}},
      {8, {0, 40000, 65535}}};
  for (const auto& [code, tokens] : cases) {
    save_set(folder.file("set"), write_set({{tokens}}, code));
    EXPECT_EQ(all_tokens(*open_token_file(folder.file("set"))), tokens)
        << "code " << int{code};
  }
}

TEST(TokenFile, RefusesFloatingPointTokens) {
  const ScratchFolder folder;
  for (uint8_t code : {6, 7}) {
    save_set(folder.file("set"), write_set({{{1}}}, code));
    EXPECT_THAT(error_of(folder.file("set")),
                HasSubstr("set.idx: offset 17: token type"));
  }
}

TEST(TokenFile, EmptyDocumentsAndSequencesHaveNoStart) {
  const ScratchFolder folder;
  save_set(folder.file("set"),
           write_set({{}, {{}}, {{1}, {}, {2}}, {}, {{3, 4}}, {{}}, {}}));
  const auto file = open_token_file(folder.file("set"));
  EXPECT_THAT(all_tokens(*file), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(all_starts(*file), ElementsAre(0, 2));
  EXPECT_EQ(file->num_documents(), 2);
}

TEST(TokenFile, AcceptsModesOnlyWhenTheyMeanText) {
  const ScratchFolder folder;
  WrittenSet set = write_set({{{1, 2}, {3}}}, 8, /*has_modes=*/true);
  save_set(folder.file("set"), set);
  EXPECT_EQ(open_token_file(folder.file("set"))->num_tokens(), 3);
  set.idx.back() = 1;
  save_set(folder.file("set"), set);
  EXPECT_THAT(error_of(folder.file("set")), HasSubstr("mode 1"));
}

TEST(TokenFile, ReturnsWhatWasWritten) {
  const ScratchFolder folder;
  EXPECT_TRUE(rc::check("round trip", [&] {
    // Short ones, so that empty documents and sequences are common.
    const auto sequence =
        rc::gen::resize(3,
                        rc::gen::container<std::vector<int64_t>>(
                            rc::gen::inRange<int64_t>(0, 128)));
    const auto document =
        rc::gen::resize(3, rc::gen::container<Documents::value_type>(sequence));
    const auto documents = *rc::gen::container<Documents>(document);
    const uint8_t code = *rc::gen::element<uint8_t>(1, 2, 3, 4, 5, 8);
    save_set(folder.file("set"), write_set(documents, code));
    std::vector<int64_t> tokens;
    std::vector<int64_t> document_of;
    int64_t number = 0;
    for (const auto& document : documents) {
      const size_t before = tokens.size();
      for (const auto& sequence : document) {
        tokens.insert(tokens.end(), sequence.begin(), sequence.end());
      }
      document_of.insert(document_of.end(), tokens.size() - before, number);
      number += tokens.size() > before ? 1 : 0;
    }
    const auto file = open_token_file(folder.file("set"));
    RC_ASSERT(all_tokens(*file) == tokens);
    RC_ASSERT(file->num_documents() == number);
    for (size_t i = 0; i < tokens.size(); ++i) {
      RC_ASSERT(file->document_of(static_cast<int64_t>(i)) == document_of[i]);
    }
  }));
}

// What a reader may see of a set; equal when it reads the same.
std::string content_of(const std::string& prefix) {
  try {
    const auto file = open_token_file(prefix);
    return testing::PrintToString(all_tokens(*file)) +
           testing::PrintToString(all_starts(*file));
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(prefix));
    return "error";
  }
}

TEST(TokenFile, EveryChangedByteOfAnIndexIsAnErrorOrChangesNothing) {
  const ScratchFolder folder;
  const std::string prefix = folder.file("set");
  const WrittenSet set = write_set({{{1, 2, 3}}, {}, {{4, 5}, {6}}});
  save_set(prefix, set);
  const std::string content = content_of(prefix);
  int num_errors = 0;
  for (size_t i = 0; i < set.idx.size(); ++i) {
    for (int flip : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string idx = set.idx;
      idx[i] = static_cast<char>(idx[i] ^ flip);
      write_bytes(prefix + ".idx", idx);
      const std::string changed = content_of(prefix);
      // Another boundary of a document may be as good as the one written.
      const bool is_boundary = i >= 34 + 12 * 3;
      if (changed == "error") {
        ++num_errors;
      } else if (!is_boundary) {
        ASSERT_EQ(changed, content) << "byte " << i << ", flip " << flip;
      }
    }
  }
  EXPECT_GT(num_errors, 800);
}

TEST(TokenFile, EveryTruncationIsAnError) {
  const ScratchFolder folder;
  const std::string prefix = folder.file("set");
  const WrittenSet set = write_set({{{1, 2, 3}}, {}, {{4, 5}, {6}}});
  for (size_t length = 0; length < set.idx.size(); ++length) {
    save_set(prefix, {set.bin, set.idx.substr(0, length)});
    EXPECT_EQ(content_of(prefix), "error") << length;
  }
  for (size_t length = 0; length < set.bin.size(); ++length) {
    save_set(prefix, {set.bin.substr(0, length), set.idx});
    EXPECT_EQ(content_of(prefix), "error") << length;
  }
  save_set(prefix, {set.bin + "x", set.idx});
  EXPECT_EQ(content_of(prefix), "error");
  save_set(prefix, {set.bin, set.idx + "x"});
  EXPECT_EQ(content_of(prefix), "error");
}

TEST(TokenFile, HostileCountsAllocateNothing) {
  const ScratchFolder folder;
  const uint64_t hostile[] = {uint64_t{1} << 32,
                              (uint64_t{1} << 60) + 2,
                              0x1555555555555555,  // 12 S wraps around
                              ~uint64_t{0}};
  for (uint64_t count : hostile) {
    for (size_t offset : {18, 26}) {
      WrittenSet set = write_set({{{1, 2, 3}}});
      std::memcpy(set.idx.data() + offset, &count, sizeof(count));
      save_set(folder.file("set"), set);
      EXPECT_THAT(error_of(folder.file("set")),
                  HasSubstr("set.idx: offset 18"));
    }
  }
}

TEST(TokenFile, RefusesSequencesThatOverlapOrLeaveGaps) {
  const ScratchFolder folder;
  WrittenSet set = write_set({{{1, 2}, {3, 4}}});
  const int64_t overlapping = 2;  // bytes; the second begins at 4
  std::memcpy(set.idx.data() + 34 + 8 + 8, &overlapping, 8);
  save_set(folder.file("set"), set);
  EXPECT_THAT(error_of(folder.file("set")),
              HasSubstr("set.idx: offset 50: a sequence begins at byte 2"));
}

TEST(TokenFile, NamesTheOffsetOfABadBoundary) {
  const ScratchFolder folder;
  WrittenSet set = write_set({{{1}}, {{2}}, {{3}}});
  const int64_t decreasing = 0;  // 0, 1, 0, 3
  std::memcpy(set.idx.data() + 34 + 36 + 16, &decreasing, 8);
  save_set(folder.file("set"), set);
  EXPECT_THAT(error_of(folder.file("set")),
              HasSubstr("offset 86: document boundary 0"));
}

TEST(TokenFile, SaysWhatIsMissing) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of(folder.file("none")), HasSubstr("no such file"));
  write_bytes(folder.file("set.bin"), "");
  EXPECT_THAT(error_of(folder.file("set")),
              HasSubstr("set.idx: is missing, but"));
  save_set(folder.file("set"), write_set({{{1}}}));
  EXPECT_THAT(error_of(folder.file("set.bin")), HasSubstr("give their prefix"));
  write_bytes(folder.file("set"), "text");
  EXPECT_THAT(error_of(folder.file("set")), HasSubstr("rename one"));
}

TEST(TokenFile, AFolderBesideASetIsNotItsText) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.file("set"));
  save_set(folder.file("set"), write_set({{{1}}}));
  EXPECT_EQ(open_token_file(folder.file("set"))->num_tokens(), 1);
}

TEST(TokenFile, AFileThatShrinksIsAnErrorWithItsOffset) {
  const ScratchFolder folder;
  write_bytes(folder.file("text"), std::string(1000, 'x'));
  const auto file = open_token_file(folder.file("text"));
  std::filesystem::resize_file(folder.file("text"), 500);
  std::vector<int64_t> tokens(200);
  file->read(300, tokens);
  EXPECT_THAT([&] { file->read(400, tokens); },
              testing::ThrowsMessage<Error>(HasSubstr("text: offset 500")));
}

TEST(TokenFile, ReadsIndexesLongerThanOneBlock) {
  const ScratchFolder folder;
  Documents documents;
  for (int64_t i = 0; i < 150000; ++i) {
    documents.push_back({{i % 100}});
  }
  save_set(folder.file("set"), write_set(documents));
  const auto file = open_token_file(folder.file("set"));
  EXPECT_EQ(file->num_documents(), 150000);
  EXPECT_EQ(file->document_of(140000), 140000);
}

}  // namespace
}  // namespace triax
