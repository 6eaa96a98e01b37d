// SPDX-License-Identifier: Apache-2.0
#include "triax/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/json.h"

namespace triax {
namespace {

using testing::HasSubstr;

RunFacts make_facts() {
  RunFacts facts;
  facts.num_steps = 100;
  facts.world_size = 4;
  facts.flops_per_token = 1e6;
  facts.peak_flops = 1e10;
  facts.memory_bytes = int64_t{16} << 30;
  return facts;
}

StepRecord make_record(int64_t step, double seconds) {
  StepRecord record;
  record.stats.step = step;
  record.stats.loss = 2.5;
  record.stats.grad_norm = 0.75;
  record.stats.lr = 1e-3;
  record.stats.num_valid_tokens = 2000;
  record.seconds = seconds;
  for (const int64_t nbytes : {1, 2}) {
    RankMemory& rank = record.memory.emplace_back();
    rank.resident_peak = nbytes << 30;
    rank.on_disk_peak = nbytes << 20;
    rank.peak[MemoryCategory::kParameters] = 10 * nbytes;
    rank.peak[MemoryCategory::kTemporary] = nbytes;
  }
  return record;
}

TEST(StepLine, SaysSpeedShareAndWhatIsLeft) {
  StepLine line(make_facts());
  line.text(make_record(1, 100.0));  // the first step is not averaged
  const std::string text = line.text(make_record(2, 0.5));
  EXPECT_THAT(text, HasSubstr("step 2/100  loss 2.5000  norm 0.75"));
  EXPECT_THAT(text, HasSubstr("tok/s 4,000 (1,000/rank)"));
  EXPECT_THAT(text, HasSubstr("mfu 40.0%"));
  EXPECT_THAT(text, HasSubstr("mem 2.00/16.0 GiB"));
  EXPECT_THAT(text, HasSubstr("500 ms  eta 49.0 s"));
}

// A file may grow to so many bytes, as on a full disk, while this lives.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t nbytes) : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit small = {nbytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit old_ = {};
  void (*const old_handler_)(int);
};

TEST(MetricsFile, HasWholeLinesAloneWhereTheDiskIsFull) {
  const std::string path = testing::TempDir() + "/metrics_full.jsonl";
  bool has_failed = false;
  {
    MetricsFile file(path, make_facts());
    const SmallDisk disk(2000);
    for (int64_t step = 1; step < 100 && !has_failed; ++step) {
      try {
        file.write(make_record(step, 0.5));
      } catch (const Error&) {
        has_failed = true;
      }
    }
  }
  EXPECT_TRUE(has_failed);
  const std::string text = read_file(path, 1 << 20);
  EXPECT_FALSE(text.empty());
  EXPECT_TRUE(text.ends_with("}\n")) << text;
  std::remove(path.c_str());
}

TEST(MetricsFile, WritesOneObjectAStep) {
  const std::string path = testing::TempDir() + "/metrics_test.jsonl";
  {
    MetricsFile file(path, make_facts());
    StepRecord record = make_record(1, 0.5);
    record.validation_loss = 1.25;
    file.write(record);
    record = make_record(2, 0.25);
    record.stats.loss = std::numeric_limits<double>::quiet_NaN();
    file.write(record);
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const Json first = parse_json(line, path);
  EXPECT_EQ(first["step"], 1);
  EXPECT_EQ(first["tokens_per_second"], 4000.0);
  EXPECT_EQ(first["validation_loss"], 1.25);
  EXPECT_EQ(first["memory_peak_bytes"], int64_t{2} << 30);
  EXPECT_EQ(first["on_disk_peak_bytes"], 2 << 20);
  EXPECT_EQ(first["memory_at_peak"],
            parse_json(R"({"total": [11, 22], "parameters": [10, 20],
                "gradients": [0, 0], "optimizer": [0, 0],
                "activations": [0, 0], "communication": [0, 0],
                "temporary": [1, 2]})",
                       path));
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_TRUE(parse_json(line, path)["loss"].is_null());
  EXPECT_FALSE(std::getline(file, line));
  std::filesystem::remove(path);
}

TEST(MetricsFile, SaysWhichFileCannotBeWritten) {
  try {
    MetricsFile file("/nonexistent/metrics.jsonl", make_facts());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/metrics.jsonl"));
  }
}

}  // namespace
}  // namespace triax
