// SPDX-License-Identifier: Apache-2.0
#include "triax/base/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "tests/dataset/written_set.h"
#include "triax/base/process_memory.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

class Cgroup : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_.file(path)).parent_path());
    write_bytes(folder_.file(path), text);
  }
  int64_t limit() const {
    return cgroup_memory_bytes({.membership = folder_.file("membership"),
                                .root = folder_.file("root")});
  }

  ScratchFolder folder_;
};

TEST_F(Cgroup, LimitIsTheLeastOnTheWayUp) {
  write("membership", "0::/user.slice/job\n");
  EXPECT_EQ(limit(), kNone);
  write("root/user.slice/job/memory.max", "max\n");
  EXPECT_EQ(limit(), kNone);
  write("root/user.slice/memory.max", "3000000000\n");
  EXPECT_EQ(limit(), 3'000'000'000);
  write("root/user.slice/job/memory.max", "2000000000\n");
  EXPECT_EQ(limit(), 2'000'000'000);
  write("root/user.slice/other/memory.max", "1000\n");
  EXPECT_EQ(limit(), 2'000'000'000);
}

TEST_F(Cgroup, AContainersRootIsItsOwn) {
  write("membership", "0::/as/the/host/says\n");
  write("root/memory.max", "5000000000\n");
  EXPECT_EQ(limit(), 5'000'000'000);
}

TEST_F(Cgroup, Version1HasAMemoryController) {
  write("membership",
        "9:name=systemd:/\n4:cpu,memory:/job\n3:cpuset:/\n0::/\n");
  write("root/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("root/cpuset/memory.limit_in_bytes", "1\n");
  EXPECT_GT(limit(), int64_t{1} << 62);
  write("root/memory/memory.limit_in_bytes", "4000000000\n");
  EXPECT_EQ(limit(), 4'000'000'000);
}

TEST_F(Cgroup, NonsenseIsNoLimit) {
  EXPECT_EQ(limit(), kNone);
  write("membership", "nonsense\n\n0::\n");
  write("root/memory.max", "-1\n");
  EXPECT_EQ(limit(), kNone);
}

TEST(Machine, HasMemoryWithinItsCgroupAndCores) {
  EXPECT_GT(machine_memory_bytes(), 1 << 20);
  EXPECT_LE(machine_memory_bytes(), cgroup_memory_bytes());
  EXPECT_LE(machine_memory_bytes(),
            int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  EXPECT_GE(num_cores(), 1);
}

TEST(ProcessMemory, IsTheSumOfItsKindsAndAtMostItsPeak) {
  const ProcessMemory memory = process_memory();
  EXPECT_GT(memory.anonymous, 1 << 16);
  EXPECT_EQ(memory.resident, memory.anonymous + memory.files + memory.shared);
  EXPECT_LE(memory.resident, process_memory().peak);
}

}  // namespace
}  // namespace triax
