// SPDX-License-Identifier: Apache-2.0
#include "triax/config/nearest.h"

#include <gtest/gtest.h>

#include <set>

#include "triax/config/fields.h"
#include "triax/config/key_aliases.h"
#include "triax/config/name_pattern.h"

namespace triax {
namespace {

TEST(Nearest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("clipp1ng", "clipping"), 1);
  EXPECT_EQ(edit_distance("setps", "steps"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("micro_batch_size", "microbatch_size"), 0);
}

TEST(Nearest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("stpes", {"steps", "seed"}), "steps");
  EXPECT_EQ(nearest("xyz", {"steps", "seed"}), "");
  EXPECT_EQ(nearest("", {"tp"}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), {"steps"}), "");
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    words.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

TEST(KeyAliases, NameKeysThatExistAndStandOnce) {
  std::set<std::string> seen;
  for (const KeyAlias& alias : key_aliases()) {
    EXPECT_FALSE(alias.keys.empty() && alias.advice.empty()) << alias.names;
    for (const std::string& key : words_of(alias.keys)) {
      EXPECT_NE(find_field(key), nullptr) << key;
    }
    for (const std::string& name : words_of(alias.names)) {
      EXPECT_TRUE(seen.insert(plain_letters(name)).second) << name;
      for (const Field& field : fields()) {
        EXPECT_NE(plain_letters(field.name()), plain_letters(name));
      }
    }
  }
}

TEST(KeyAliases, SayWhatTheyAreCalledHere) {
  EXPECT_EQ(alias_fix("parallel", "tensor-parallel-size"),
            "did you mean parallel.tp?");
  EXPECT_EQ(alias_fix("", "micro_batch"),
            "did you mean training.microbatch_size?");
  EXPECT_EQ(alias_fix("optimizer", "type"), "did you mean optimizer.name?");
  EXPECT_EQ(alias_fix("training", "mixed_precision_reduce"),
            "did you mean parallel.reduce_dtype?");
  EXPECT_EQ(alias_fix("parallel", "grad_reduce_in_fp32"),
            "did you mean parallel.reduce_dtype?");
  EXPECT_EQ(alias_fix("memory", "nvme_path"),
            "did you mean memory.offload_dir?");
  EXPECT_EQ(alias_fix("memory", "offload_optimizer"),
            "did you mean memory.offload? with memory.offload_states = "
            "[\"optimizer\"]");
  EXPECT_EQ(alias_fix("data", "type"), "");
  EXPECT_EQ(alias_fix("training", "stesp"), "");
}

TEST(NamePattern, FitsTheWholeName) {
  EXPECT_TRUE(matches_pattern("*.bias", "h.0.attn.bias"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("h.?.*", "h.3.x"));
  EXPECT_TRUE(matches_pattern("*a*b", "aab"));
  EXPECT_TRUE(matches_pattern("a**", "a"));
  EXPECT_FALSE(matches_pattern("h.?.*", "h.12.x"));
  EXPECT_FALSE(matches_pattern("bias", "h.bias"));
  EXPECT_FALSE(matches_pattern("*.bias", "h.bias2"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(
      matches_pattern(std::string(50, '*') + "b", std::string(5000, 'a')));
}

TEST(SureSlip, IsOfLettersAndOfOneWord) {
  const std::vector<std::string_view> words = {
      "bf16", "fp16", "gradient_clipping", "steps", "stops"};
  EXPECT_TRUE(is_sure_slip("graient_clipping", "gradient_clipping", words));
  EXPECT_TRUE(is_sure_slip("bg16", "bf16", words));
  EXPECT_FALSE(is_sure_slip("bf15", "bf16", words));
  EXPECT_FALSE(is_sure_slip("staps", "steps", {"steps", "stops"}));
  EXPECT_FALSE(is_sure_slip("bp16", "bf16", words));
}

TEST(Opposites, AreNeverNearest) {
  EXPECT_EQ(nearest("no_overlap_comm", {"overlap_comm"}), "");
  EXPECT_EQ(nearest("load-optim", {"no-load-optim"}), "");
  EXPECT_EQ(nearest("tie-embedings", {"untie-embeddings"}), "");
  EXPECT_EQ(nearest("disable_cache", {"enable_cache"}), "");
  EXPECT_EQ(nearest("overlap_com", {"no_overlap_comm", "overlap_comm"}),
            "overlap_comm");
  EXPECT_EQ(nearest("no-lod-optim", {"no-load-optim"}), "no-load-optim");
  EXPECT_EQ(nearest("niform", {"uniform"}), "uniform");
}

TEST(Opposites, AreFoundByName) {
  EXPECT_EQ(opposite_of("load-optim", {"load", "no-load-optim"}),
            "no-load-optim");
  EXPECT_EQ(opposite_of("untie_weights", {"tie-weights"}), "tie-weights");
  EXPECT_EQ(opposite_of("loss", {"no-load-optim", "load"}), "");
}

}  // namespace
}  // namespace triax
