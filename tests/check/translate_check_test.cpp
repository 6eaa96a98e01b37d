// SPDX-License-Identifier: Apache-2.0
// What is written for another system is a config that triax itself finds no
// error in: every good sample of every system, for every other one.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tests/check/megatron_cases.h"
#include "triax/base/file.h"
#include "triax/check/check.h"
#include "triax/check/foreign_check.h"
#include "triax/config/load.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = TRIAX_SOURCE_DIR "/tests";

constexpr System kAll[] = {System::kTriax,
                           System::kDeepSpeed,
                           System::kMegatron,
                           System::kTorchTitan,
                           System::kNanotron};

// "good.w8.json" is of 8 ranks.
std::optional<int64_t> ranks_in(const std::string& name) {
  const size_t at = name.find(".w");
  return at == std::string::npos
             ? std::nullopt
             : std::optional<int64_t>(std::atoll(name.c_str() + at + 2));
}

// The data are where the run is started; few microbatches stop TorchTitan,
// where others are slow, which is said of what was written.
std::string errors_of(std::vector<Problem> problems) {
  std::string text;
  for (const Problem& problem : problems) {
    // Files and folders are those of another machine.
    if (problem.severity == Severity::kError && problem.rule != "data-path" &&
        problem.rule != "offload-dir" && problem.rule != "few-microbatches") {
      text += to_text(problem) + "\n";
    }
  }
  return text;
}

std::string errors_in(const std::string& text,
                      System system,
                      const ForeignContext& context) {
  if (const SystemEntry* entry = find_system(system)) {
    return errors_of(
        check_foreign(entry->read(text, "written"), context).problems);
  }
  LoadedConfig loaded = parse_config(text, "written");
  resolve(loaded, {});
  return errors_of(check_run(loaded, {}));
}

int expect_good_translations(const TranslationSource& source,
                             const std::string& name,
                             const ForeignContext& context) {
  int count = 0;
  for (const System to : kAll) {
    if (to != source.system) {
      const std::string text = translate(source, to).text;
      EXPECT_EQ(errors_in(text, to, context), "")
          << name << " to " << system_name(to) << ":\n"
          << text;
      ++count;
    }
  }
  return count;
}

std::string text_of(const fs::path& path) {
  return read_file(path.string(), 1 << 20);
}

// 0 where the sample itself has errors.
int expect_good_sample(System system,
                       const std::string& text,
                       const std::string& name) {
  const ForeignContext context{.world = ranks_in(name)};
  const ForeignConfig config = find_system(system)->read(text, name);
  return errors_of(check_foreign(config, context).problems).empty()
             ? expect_good_translations(
                   translation_source(config, {.world = context.world}),
                   name,
                   context)
             : 0;
}

int expect_good_samples(System system, const fs::path& folder) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(kTests / folder)) {
    const std::string name = file.path().filename().string();
    // DeepSpeed takes numbers that no run has; so does what is written then.
    const bool is_absurd = name.find("_huge") != std::string::npos;
    if (!name.ends_with(".tsv") && name != "verdicts.txt" && !is_absurd) {
      count += expect_good_sample(system, text_of(file.path()), name);
    }
  }
  return count;
}

TEST(TranslateCheck, OfDeepSpeedIsWithoutErrors) {
  EXPECT_GT(expect_good_samples(System::kDeepSpeed, "foreign/deepspeed/cases"),
            4 * 40);
}

TEST(TranslateCheck, OfMegatronIsWithoutErrors) {
  const fs::path folder = kTests / "cases/megatron";
  int count = 0;
  for (const MegatronCase& of : read_megatron_cases(
           text_of(folder / "base.sh"), text_of(folder / "cases.txt"))) {
    count += expect_good_sample(System::kMegatron, of.script, of.name);
  }
  EXPECT_GT(count, 4 * 25);
  EXPECT_GT(expect_good_samples(System::kMegatron, "cases/megatron_scripts"),
            4 * 4);
}

TEST(TranslateCheck, OfTorchTitanIsWithoutErrors) {
  EXPECT_GT(expect_good_samples(System::kTorchTitan, "cases/torchtitan"),
            4 * 25);
}

TEST(TranslateCheck, OfNanotronIsWithoutErrors) {
  EXPECT_GT(expect_good_samples(System::kNanotron, "cases/nanotron"), 4 * 25);
}

TEST(TranslateCheck, OfTriaxIsWithoutErrors) {
  for (const std::string file : {"examples/gpt2_two_replicas.toml",
                                 "examples/slow_network.toml",
                                 "configs/kjv.toml"}) {
    const std::string path = TRIAX_SOURCE_DIR "/" + file;
    LoadedConfig loaded = parse_config(read_file(path, 1 << 20), file);
    resolve(loaded, {});
    expect_good_translations(translation_source(loaded), file, {});
  }
}

// Layouts that other systems ask more of.
TEST(TranslateCheck, OfLayoutsWithLittleSaidIsWithoutErrors) {
  for (const std::string zero : {"0", "1", "2", "3"}) {
    for (const std::string more :
         {R"("train_batch_size": 24)",
          R"("train_batch_size": 24, "fp16": {"enabled": true})",
          R"("train_micro_batch_size_per_gpu": "auto", "train_batch_size":)"
          R"( "auto")",
          R"("train_micro_batch_size_per_gpu": 1, "tensor_parallel":)"
          R"( {"autotp_size": 3})",
          R"("train_batch_size": 8, "optimizer": {"type": "SGD", "params":)"
          R"( {"lr": 0.1}})",
          R"("train_batch_size": 8, "optimizer": {"type": "Lion", "params":)"
          R"( {"lr": 0.1}}, "scheduler": {"type": "WarmupLR", "params":)"
          R"( {"warmup_num_steps": 2000}})"}) {
      const std::string json =
          "{" + more + ", \"zero_optimization\": {\"stage\": " + zero + "}}";
      const ForeignConfig config =
          find_system(System::kDeepSpeed)->read(json, "d.json");
      expect_good_translations(translation_source(config), json, {});
    }
  }
}

}  // namespace
}  // namespace triax
