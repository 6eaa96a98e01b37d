// SPDX-License-Identifier: Apache-2.0
// The whole program with real ranks: `triax verify` is equal, and different
// when something is broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/program.h"
#include "triax/base/json.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A layout on which everything can be broken.
constexpr const char* kLayout =
    " parallel.dp=2 parallel.zero=2 parallel.tp=2 parallel.pp=2"
    " model.tie_word_embeddings=true model.num_key_value_heads=1"
    " model.vocab_size=13 model.resid_pdrop=0.1 training.microbatch_size=1"
    " training.gradient_clipping=0.05 'optimizer.freeze=[\"*o_proj*\"]'"
    " 'optimizer.group=[{pattern=\"*mlp*\", lr=5e-3}]'";

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(TRIAX_BUILD_DIR "/libexec/triax-run")) {
      GTEST_SKIP() << "built without LibTorch";
    }
  }

  Output verify(const std::string& arguments) const {
    const std::string parity = TRIAX_SOURCE_DIR "/tests/parity/";
    return folder_.run("verify '" + parity + "walk.toml' 'data.path=" + parity +
                       "walk'" + kLayout + " --steps 2 " + arguments);
  }

  // What parse_break() answers to a name that it does not know.
  std::vector<std::string> all_names() const {
    const std::string answer = verify("--break no-such").err;
    const std::string before = "use one of ";
    std::vector<std::string> names;
    const size_t begin = answer.find(before);
    if (begin == std::string::npos) {
      return names;
    }
    std::string list = answer.substr(begin + before.size());
    list =
        list.substr(0, list.find_first_not_of("abcdefghijklmnopqrstuvwxyz-, "));
    for (size_t start = 0; start < list.size();) {
      const size_t end = std::min(list.find(", ", start), list.size());
      names.push_back(list.substr(start, end - start));
      start = end + 2;
    }
    return names;
  }

  ProgramFolder folder_;
};

TEST_F(Verify, EndsWithOneWord) {
  const Output equal = verify("");
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, testing::EndsWith("\nequal\n"));
  const Output different = verify("--break swap-heads");
  EXPECT_EQ(different.code, 1) << different.err;
  EXPECT_THAT(different.out, testing::EndsWith("\ndifferent\n"));
  EXPECT_THAT(different.out, HasSubstr("first difference: initial weight of "));
}

TEST_F(Verify, FindsEveryBreak) {
  const std::vector<std::string> names = all_names();
  EXPECT_GE(names.size(), 21u);
  for (const std::string& name : names) {
    const bool is_of_sequence = name.find("sequence") != std::string::npos;
    const std::string more = is_of_sequence ? " parallel.sequence_parallel=true"
                             : name == "stale-unit" ? " parallel.zero=3"
                                                    : "";
    const Output result = verify("--json --break " + name + more);
    EXPECT_EQ(result.code, 1) << name << "\n" << result.err;
    const Json report = parse_json(result.out, "out");
    EXPECT_EQ(report["verdict"], "different") << name;
  }
}

TEST_F(Verify, RefusesABreakThatDoesNothingHere) {
  const Output result = verify("parallel.tp=1 --break skip-row-sum");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("it needs tp above 1"));
}

}  // namespace
}  // namespace triax
