// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/scratch_folder.h"
#include "triax/base/file.h"
#include "triax/base/folder_space.h"
#include "triax/check/check.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CheckOffload : public testing::Test {
 protected:
  CheckOffload() {
    write_file_atomically(folder_.file("text"), std::string(5000, 'a'));
  }

  LoadedConfig load(const std::vector<std::string>& more) const {
    std::vector<std::string> keys = {"data.path=" + folder_.file("text"),
                                     "data.sequence_length=16",
                                     "model.max_position_embeddings=16",
                                     "memory.offload=nvme"};
    keys.insert(keys.end(), more.begin(), more.end());
    LoadedConfig loaded = parse_config("", "a", keys);
    resolve(loaded, {});
    return loaded;
  }

  /// All problems, a line each.
  std::string found(const std::vector<std::string>& keys) const {
    std::string all;
    for (const Problem& problem : check_run(load(keys))) {
      all += to_text(problem) + "\n";
    }
    return all;
  }

  ScratchFolder folder_;
};

TEST_F(CheckOffload, HasNothingToSayOfAFolderWithRoom) {
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({"memory.offload_dir=" + folder_.path().string()}), "");
  // The run's folder is made later.
  EXPECT_EQ(found({"run.dir=" + folder_.file("runs/new")}), "");
}

TEST_F(CheckOffload, AFolderMustBeThere) {
  const std::string missing = folder_.file("none");
  EXPECT_THAT(found({"memory.offload_dir=" + missing}),
              AllOf(HasSubstr("error[offload-dir]: memory.offload_dir: there "
                              "is no folder \"" +
                              missing),
                    HasSubstr("give a folder on a disk")));
  EXPECT_THAT(found({"memory.offload_dir=" + folder_.file("text")}),
              HasSubstr("is no folder"));
}

TEST_F(CheckOffload, SaysThatMemoryIsNoDisk) {
  if (!folder_space("/dev/shm").is_memory) {
    GTEST_SKIP() << "/dev/shm is no tmpfs";
  }
  EXPECT_THAT(found({"memory.offload_dir=/dev/shm"}),
              HasSubstr("warning[offload-in-memory]: memory.offload_dir: "
                        "\"/dev/shm\" is in memory (tmpfs)"));
}

// 16 bytes of state for each of some 3 10^13 parameters.
TEST_F(CheckOffload, CountsWhatTheDiskMustHold) {
  EXPECT_THAT(found({"model.hidden_size=262144",
                     "model.intermediate_size=262144",
                     "model.num_hidden_layers=64",
                     "memory.offload_dir=" + folder_.path().string()}),
              AllOf(HasSubstr("error[offload-disk-full]: memory.offload_dir: "),
                    HasSubstr("TiB go on file for 1 rank, "),
                    HasSubstr("TiB the largest (optimizer "),
                    HasSubstr("are free in \"" + folder_.path().string())));
}

TEST_F(CheckOffload, SaysWhichKeysDoNothing) {
  EXPECT_THAT(found({"memory.offload=host"}),
              HasSubstr("warning[no-effect]: memory.offload: does nothing: on "
                        "a CPU device everything is in the host's memory"));
  EXPECT_THAT(found({"optimizer.name=sgd"}),
              HasSubstr("memory.offload: does nothing: nothing that "
                        "offload_states names exists"));
  EXPECT_EQ(found({"optimizer.name=sgd", "optimizer.momentum=0.9"}), "");
  EXPECT_THAT(found({"memory.offload=none",
                     "memory.offload_dir=" + folder_.path().string()}),
              HasSubstr("memory.offload_dir: does nothing: memory.offload is "
                        "not \"nvme\""));
}

TEST_F(CheckOffload, GradientsNeedAShardOfThem) {
  const std::string both =
      "memory.offload_states=[\"optimizer\", "
      "\"gradients\"]";
  EXPECT_THAT(found({both,
                     "parallel.zero=1",
                     "parallel.dp=2",
                     "training.global_batch_size=2"}),
              AllOf(HasSubstr("error[offload-needs]: memory.offload_states: "
                              "gradients lie whole in memory with zero = 1"),
                    HasSubstr("use parallel.zero = 2")));
  EXPECT_EQ(found({both,
                   "parallel.zero=2",
                   "parallel.dp=2",
                   "training.global_batch_size=2",
                   "parallel.bucket_bytes=1000"}),
            "");
  EXPECT_THAT(found({"memory.offload_states=[\"gradients\"]",
                     "parallel.zero=2",
                     "parallel.dp=2",
                     "training.global_batch_size=2",
                     "parallel.bucket_bytes=1000"}),
              HasSubstr("add \"optimizer\""));
}

TEST_F(CheckOffload, ParametersNeedAShardOfThem) {
  const std::string all =
      "memory.offload_states=[\"optimizer\", "
      "\"gradients\", \"parameters\"]";
  EXPECT_THAT(
      found({all, "parallel.zero=3"}),
      AllOf(HasSubstr("error[offload-needs]: memory.offload_states: parameters "
                      "lie whole in memory with zero = 3 and 1 shard, "),
            HasSubstr("use parallel.zero = 3 with dp above 1")));
  EXPECT_THAT(found({all,
                     "parallel.zero=3",
                     "parallel.dp=2",
                     "training.global_batch_size=2"}),
              Not(HasSubstr("error")));
}

// 41 MiB of parameters and as much of gradients, in blocks of 10 MiB.
TEST_F(CheckOffload, AShardOnFileIsNotHeldAgainstZero) {
  const std::vector<std::string> keys = {"model.hidden_size=512",
                                         "model.intermediate_size=1024",
                                         "model.vocab_size=256",
                                         "parallel.dp=2",
                                         "training.global_batch_size=2"};
  const auto found_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return found(more);
  };
  const std::string gradients =
      "memory.offload_states=[\"optimizer\", \"gradients\"]";
  const std::string all =
      "memory.offload_states=[\"optimizer\", \"gradients\", \"parameters\"]";
  const std::string zero2 = "parallel.zero=2";
  const std::string buckets = "parallel.bucket_bytes=12MiB";
  EXPECT_THAT(found_with({zero2, buckets}),
              HasSubstr("20.5 MiB of gradients and 21.0 MiB of buckets are "
                        "more than the 41.0 MiB of gradients that zero = 1"));
  EXPECT_EQ(found_with({zero2, buckets, gradients}), "");
  EXPECT_THAT(found_with({zero2, "parallel.bucket_bytes=20MiB", gradients}),
              HasSubstr("38.0 MiB of buckets and 38.0 MiB of windows are more "
                        "than the 41.0 MiB of gradients and 8.0 MiB of "
                        "windows that zero = 1 keeps"));
  const std::string zero3 = "parallel.zero=3";
  const std::string small = "parallel.bucket_bytes=1MiB";
  const std::string layers = "model.num_hidden_layers=5";
  const std::string ahead = "parallel.prefetch=2";
  EXPECT_THAT(found_with({zero3, small, layers, ahead}),
              HasSubstr("of parameters and 30.0 MiB of gathered units are "
                        "more than"));
  EXPECT_EQ(found_with({zero3, small, layers, ahead, all}), "");
}

// Apart from the rank's memory.
TEST_F(CheckOffload, TheMemoryTableHasARowForTheDisk) {
  const LoadedConfig loaded =
      load({"model.hidden_size=512", "model.vocab_size=20000"});
  RunConfig in_memory = loaded.config;
  in_memory.memory.offload = Offload::kNone;
  const StageMemory with = predict_memory(loaded.config).front();
  const StageMemory without = predict_memory(in_memory).front();
  EXPECT_EQ(without.disk_bytes(), 0);
  EXPECT_LT(with.total_bytes(), without.total_bytes() - (100 << 20));
  // But for padding, and the windows of an update.
  EXPECT_NEAR(static_cast<double>(with.total_bytes() + with.disk_bytes()),
              static_cast<double>(without.total_bytes() + (8 << 20)),
              1 << 20);
  EXPECT_THAT(memory_table(predict_memory(loaded.config)),
              AllOf(HasSubstr("windows"), HasSubstr("\non disk")));
  EXPECT_THAT(memory_table(predict_memory(in_memory)),
              Not(HasSubstr("on disk")));
}

}  // namespace
}  // namespace triax
