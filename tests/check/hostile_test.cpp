// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a reader is given: it says what is wrong in one sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "triax/check/apply_edits.h"
#include "triax/check/foreign_check.h"
#include "triax/check/report_formats.h"
#include "triax/foreign/system.h"

namespace triax {
namespace {

class Hostile : public testing::TestWithParam<System> {
 protected:
  const SystemEntry& entry() const { return *find_system(GetParam()); }

  // As `triax check` goes on with a text.
  std::vector<Problem> checked(const std::string& text) const {
    entry().likeness("f", text);
    ForeignContext context;
    context.world = 16;
    context.ranks_on_host = 8;
    context.device_bytes = int64_t{80} << 30;
    context.link_bytes_per_second = 1e9;
    const ForeignReport report =
        check_foreign(entry().read(text, "f"), context);
    to_sarif(report.problems, "0");
    to_github(report.problems);
    apply_edits(text, "f", report.problems);
    for (const Problem& problem : report.problems) {
      EXPECT_EQ(to_text(problem).find('\n'), std::string::npos);
      EXPECT_LT(to_text(problem).size(), 4096u);
    }
    return report.problems;
  }

  // Not read, and why is said once, in one sentence.
  void expect_one_sentence(const std::string& text) const {
    const std::vector<Problem> problems = checked(text);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].severity, Severity::kError);
    EXPECT_TRUE(problems[0].rule == "syntax" ||
                problems[0].rule == "unreadable")
        << to_text(problems[0]);
    EXPECT_NE(problems[0].message, "");
  }

  // A config of one key, in the system's own form.
  std::string with(const std::string& section,
                   const std::string& key,
                   const std::string& value) const {
    switch (GetParam()) {
      case System::kDeepSpeed:
        return section.empty()
                   ? "{\"" + key + "\": " + value + "}"
                   : "{\"" + section + "\": {\"" + key + "\": " + value + "}}";
      case System::kTorchTitan:
        return "[" + section + "]\n" + key + " = " + value + "\n";
      case System::kNanotron:
        return section + ":\n  " + key + ": " + value + "\n";
      default:
        return "--" + key + " " + value + "\n";
    }
  }
};

std::string repeated(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) {
    result += text;
  }
  return result;
}

TEST_P(Hostile, NestedBrackets) {
  const bool is_shell = GetParam() == System::kMegatron;
  for (const char* open : {"[", "{", "{\"a\":", "[[", "(", "$(", "${", "`"}) {
    const std::string text = repeated(open, 100'000);
    // Parentheses and quotes of a shell are plain text in YAML.
    const bool is_text =
        GetParam() == System::kNanotron && *open != '[' && *open != '{';
    if (is_text) {
      checked("a: " + text);
    } else if (is_shell) {
      EXPECT_LE(checked("A=" + text).size(), 1000u);
      checked("pretrain_gpt.py --lr " + text);
    } else {
      expect_one_sentence(GetParam() == System::kTorchTitan ? "a = " + text
                          : GetParam() == System::kNanotron ? "a: " + text
                                                            : text);
    }
  }
}

TEST_P(Hostile, BytesThatAreNoText) {
  const std::string start = with("", "a", "1");
  for (const std::string& bad : {std::string(1, '\0'),
                                 std::string("\xff"),
                                 std::string("\xc3"),
                                 std::string("\xed\xa0\x80"),
                                 std::string("\xf4\x90\x80\x80")}) {
    expect_one_sentence(bad);
    expect_one_sentence(start + bad);
    expect_one_sentence("# " + bad + "\n" + start);
  }
}

// What fuzzing found.
TEST_P(Hostile, LettersOutsideOfQuotes) {
  for (const char* letter :
       {"\xcf\x98", "\xc3\xa9", "\xc2\xa1", "\xef\xbb\xbf"}) {
    checked(letter);
    checked(std::string("# worf=)t#\n") + letter);
    checked(with("", "a", letter));
    checked(with("", letter, "1"));
    checked(with(letter, "a", "1"));
    checked(std::string(letter) + "[.se\n[mdtro");
  }
}

TEST_P(Hostile, LongLinesAndManyKeys) {
  checked(std::string(1 << 20, 'a'));
  checked(std::string(1 << 20, '"'));
  checked(std::string(1 << 20, '\n'));
  checked(std::string(1 << 20, '\\'));
  std::string keys = GetParam() == System::kDeepSpeed ? "{" : "";
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key" + std::to_string(i);
    keys += GetParam() == System::kMegatron     ? "--" + key + " 1 "
            : GetParam() == System::kTorchTitan ? key + " = 1\n"
                                                : key + ": 1\n";
  }
  // And one that counts those that were left out.
  EXPECT_LE(
      checked(keys + (GetParam() == System::kDeepSpeed ? "}" : "")).size(),
      1001u);
}

struct NumberKey {
  const char* section;
  const char* key;
};

std::vector<NumberKey> number_keys(System system) {
  switch (system) {
    case System::kDeepSpeed:
      return {{"", "train_batch_size"},
              {"", "train_micro_batch_size_per_gpu"},
              {"", "gradient_accumulation_steps"},
              {"", "sequence_parallel_size"},
              {"", "data_parallel_size"},
              {"", "vocabulary_size"},
              {"", "gradient_clipping"},
              {"zero_optimization", "stage"},
              {"zero_optimization", "reduce_bucket_size"},
              {"zero_optimization", "zero_hpz_partition_size"},
              {"zero_optimization", "mics_shard_size"},
              {"tensor_parallel", "autotp_size"},
              {"fp16", "loss_scale"}};
    case System::kTorchTitan:
      return {{"parallelism", "tensor_parallel_degree"},
              {"parallelism", "pipeline_parallel_degree"},
              {"parallelism", "context_parallel_degree"},
              {"parallelism", "data_parallel_shard_degree"},
              {"parallelism", "pipeline_parallel_layers_per_stage"},
              {"parallelism", "pipeline_parallel_microbatch_size"},
              {"training", "local_batch_size"},
              {"training", "global_batch_size"},
              {"training", "seq_len"},
              {"training", "steps"}};
    case System::kNanotron:
      return {{"parallelism", "dp"},
              {"parallelism", "pp"},
              {"parallelism", "tp"},
              {"parallelism", "expert_parallel_size"},
              {"tokens", "sequence_length"},
              {"tokens", "train_steps"},
              {"tokens", "micro_batch_size"},
              {"tokens", "batch_accumulation_per_replica"}};
    default:
      return {{"", "tensor-model-parallel-size"},
              {"", "pipeline-model-parallel-size"},
              {"", "context-parallel-size"},
              {"", "num-layers"},
              {"", "hidden-size"},
              {"", "num-attention-heads"},
              {"", "seq-length"},
              {"", "micro-batch-size"},
              {"", "global-batch-size"},
              {"", "train-iters"},
              {"", "vocab-size"},
              {"", "num-layers-per-virtual-pipeline-stage"},
              {"", "decoder-first-pipeline-num-layers"},
              {"", "lr-warmup-iters"}};
  }
}

// Alone, and all keys at one value.
TEST_P(Hostile, NumbersAtEveryBound) {
  const auto limits = std::numeric_limits<int64_t>();
  std::vector<std::string> numbers = {"0",
                                      "-1",
                                      "1e308",
                                      "-1e308",
                                      "1e-320",
                                      "nan",
                                      "inf",
                                      "-inf",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999999"};
  for (const int64_t number : {limits.max(),
                               limits.max() - 1,
                               limits.max() / 2 + 1,
                               limits.min(),
                               limits.min() + 1,
                               int64_t{1} << 31,
                               (int64_t{1} << 31) - 1,
                               int64_t{1} << 32,
                               int64_t{1} << 53,
                               (int64_t{1} << 53) + 1,
                               int64_t{3037000500}}) {
    numbers.push_back(std::to_string(number));
  }
  for (const std::string& number : numbers) {
    std::string all;
    for (const NumberKey& key : number_keys(GetParam())) {
      checked(with(key.section, key.key, number));
      all += GetParam() == System::kDeepSpeed
                 ? (*key.section == '\0' ? std::string()
                                         : std::string(key.section) + ".") +
                       key.key + ": " + number + "\n"
                 : with(key.section, key.key, number);
    }
    checked(all);
  }
}

std::string said(System system, const std::string& text) {
  ForeignContext context;
  context.world = 16;
  std::string all;
  for (const Problem& problem :
       check_foreign(find_system(system)->read(text, "f"), context).problems) {
    all += to_text(problem) + "\n";
  }
  return all;
}

// What overflowed: figures over sizes that are legal one by one.
TEST(HostileNumbers, FiguresEndWhereTheirTypeDoes) {
  EXPECT_THAT(said(System::kTorchTitan,
                   "[parallelism]\npipeline_parallel_degree = 2\n"
                   "[training]\nlocal_batch_size = 64\n"
                   "global_batch_size = 9223372036854775807\n"
                   "[model]\nname = \"llama3\"\n"),
              testing::HasSubstr("use 9223372036854775807"));
  EXPECT_THAT(said(System::kMegatron,
                   "pretrain_gpt.py --num-layers 9223372036854775806"
                   " --pipeline-model-parallel-size 16\n"),
              testing::HasSubstr("14 stages of 576460752303423488 and 2 of "
                                 "576460752303423487"));
  EXPECT_THAT(said(System::kMegatron,
                   "pretrain_gpt.py --num-layers 4"
                   " --pipeline-model-parallel-size 4"
                   " --decoder-first-pipeline-num-layers 9223372036854775807"
                   " --decoder-last-pipeline-num-layers 4294967296\n"),
              testing::HasSubstr("= -9223372036854775808 over 2 middle"));
}

INSTANTIATE_TEST_SUITE_P(Readers,
                         Hostile,
                         testing::Values(System::kDeepSpeed,
                                         System::kMegatron,
                                         System::kTorchTitan,
                                         System::kNanotron),
                         [](const auto& info) {
                           return std::string(system_name(info.param));
                         });

}  // namespace
}  // namespace triax
