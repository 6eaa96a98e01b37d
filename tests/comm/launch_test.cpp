// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "triax/base/error.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/launch_process.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

bool waits_until(const std::function<bool()>& is_true) {
  for (int i = 0; i < 1000; ++i) {
    if (is_true()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::set<std::string> shared_memory_names() {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    if (entry.path().string().find("triax") != std::string::npos) {
      out.insert(entry.path());
    }
  }
  return out;
}

/// One front with its ranks, as processes of their own group.
class Launch : public testing::Test {
 protected:
  Launch() {
    std::string pattern = testing::TempDir() + "triax_launch_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    tag_ = folder_.filename();
  }
  ~Launch() override {
    if (front_ > 0) {
      kill(front_, SIGKILL);
      waitpid(front_, nullptr, 0);
    }
    EXPECT_TRUE(waits_until([&] { return pids().empty(); }));
    EXPECT_EQ(shared_memory_names(), names_before_);
    fs::remove_all(folder_);
  }

  struct Options {
    std::string role = "front";
    int world_size = 4;
    double deadline_seconds = 60.0;
    double grace_seconds = 60.0;
  };

  void start(const std::string& mode, const Options& options) {
    front_ = fork();
    if (front_ == 0) {
      setpgid(0, 0);
      redirect("out", STDOUT_FILENO);
      redirect("err", STDERR_FILENO);
      execl(LAUNCH_ACTOR,
            LAUNCH_ACTOR,
            options.role.c_str(),
            tag_.c_str(),
            mode.c_str(),
            std::to_string(options.world_size).c_str(),
            (folder_ / "logs").c_str(),
            std::to_string(options.deadline_seconds).c_str(),
            std::to_string(options.grace_seconds).c_str(),
            nullptr);
      _exit(126);
    }
  }
  void start(const std::string& mode) { start(mode, Options{}); }

  /// The exit code; 1000 + the signal that killed it.
  int wait() {
    int status = 0;
    const bool has_ended = waits_until(
        [&] { return waitpid(front_, &status, WNOHANG) == front_; });
    if (!has_ended) {
      ADD_FAILURE() << "still runs; " << err();
      return -1;
    }
    front_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int run(const std::string& mode, const Options& options) {
    start(mode, options);
    return wait();
  }
  int run(const std::string& mode) { return run(mode, Options{}); }

  std::string out() const { return read_file(folder_ / "out"); }
  std::string err() const { return read_file(folder_ / "err"); }
  fs::path log(int rank) const {
    return rank_log_path((folder_ / "logs").string(), rank);
  }

  /// Of all processes of this test that still execute.
  std::vector<pid_t> pids() const {
    std::vector<pid_t> out;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid > 0 &&
          read_file(entry.path() / "cmdline").find(tag_) != std::string::npos) {
        out.push_back(pid);
      }
    }
    return out;
  }
  /// Until all ranks wait in their operation.
  void settle() const {
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(waits_until([&] {
        return read_file(log(rank)).find("waits for its peers") !=
               std::string::npos;
      })) << rank;
    }
    ASSERT_EQ(pids().size(), 6u);  // with the front and the ranks' parent
  }

  fs::path folder_;
  std::string tag_;
  pid_t front_ = 0;

 private:
  void redirect(const char* name, int fd) const {
    const int file =
        open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(file, fd);
  }

  const std::set<std::string> names_before_ = shared_memory_names();
};

TEST_F(Launch, ARunThatGoesWellIsSilentAndZero) {
  EXPECT_EQ(run("ok"), 0);
  EXPECT_EQ(out(), "hello from rank 0\n");
  EXPECT_EQ(err(), "rank 0: a line\n");
  EXPECT_THAT(read_file(log(0)), HasSubstr("Z rank 0: a line\n"));
  EXPECT_THAT(read_file(log(3)), HasSubstr("hello from rank 3\n"));
  EXPECT_THAT(read_file(log(3)), HasSubstr("Z rank 3: a line\n"));
  struct stat status;
  ASSERT_EQ(stat(log(3).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0177, 0u);
}

TEST_F(Launch, OneRankIsForkedToo) {
  EXPECT_EQ(run("ok", {.world_size = 1}), 0);
  EXPECT_EQ(out(), "hello from rank 0\n");
}

TEST_F(Launch, WhatTheRanksReturnPassesThrough) {
  EXPECT_EQ(run("return_2"), 2);
  EXPECT_EQ(err(), "");
}

TEST_F(Launch, AnErrorOfOneRankIsToldOnce) {
  EXPECT_EQ(run("throw"), 1);
  EXPECT_EQ(count_of(err(), "x.bin"), 1) << err();
  EXPECT_THAT(err(),
              ContainsRegex("error: rank 2 \\(dp 0, pp 1, tp 2; pid [0-9]+\\): "
                            "step 17, failed: the file x.bin is not there"));
  EXPECT_THAT(read_file(log(2)), HasSubstr("error: the file x.bin"));
  EXPECT_THAT(read_file(log(3)), HasSubstr("error: the file x.bin"));
}

TEST_F(Launch, AnErrorOfEveryRankIsToldOnce) {
  EXPECT_EQ(run("throw_all"), 1);
  EXPECT_EQ(count_of(err(), "every rank sees this"), 1) << err();
}

TEST_F(Launch, WhatIsThrownNeedNotBeAnException) {
  EXPECT_EQ(run("throw_other"), 1);
  EXPECT_THAT(err(), HasSubstr("an exception of unknown type"));
}

TEST_F(Launch, AKilledRankIsNamedWithSignalOperationAndLog) {
  EXPECT_EQ(run("kill_self"), 1);
  EXPECT_THAT(err(),
              ContainsRegex("error: rank 2 \\(dp 0, pp 1, tp 2; pid [0-9]+\\) "
                            "was killed by signal 9 \\(SIGKILL"));
  EXPECT_THAT(err(), HasSubstr("last operation: step 17, "));
  EXPECT_THAT(err(), HasSubstr("its log: " + log(2).string()));
  EXPECT_THAT(err(), HasSubstr("rank 2: about to vanish"));
  EXPECT_EQ(count_of(err(), "was killed"), 1) << err();
  EXPECT_THAT(read_file(log(1)), HasSubstr("was killed by signal 9"));
}

TEST_F(Launch, WhatTheBoardDiagnosesEndsTheRun) {
  EXPECT_EQ(run("mismatch"), 1);
  EXPECT_THAT(err(),
              ContainsRegex("error: rank 0 called all_reduce.* but rank 2 "
                            "called all_reduce\\(sum, 8 fp32\\) #412"));
  EXPECT_EQ(count_of(err(), "error"), 1) << err();
  EXPECT_THAT(read_file(log(3)), HasSubstr("error: rank 0 called all_reduce"));
}

TEST_F(Launch, TheOperationOfADeadRankIsNamed) {
  start("wait");
  settle();
  std::vector<pid_t> all = pids();
  std::sort(all.begin(), all.end());
  kill(all.back(), SIGKILL);
  EXPECT_EQ(wait(), 1);
  EXPECT_THAT(err(),
              ContainsRegex("last operation: step 17, in all_reduce #412 of "
                            "group tp at launch_actor.cpp:[0-9]+ for "));
}

TEST_F(Launch, ACrashIsNamed) {
  EXPECT_EQ(run("segfault"), 1);
  EXPECT_THAT(err(), HasSubstr("was killed by signal 11 (SIGSEGV)"));
}

TEST_F(Launch, AnExitFromInsideIsADeath) {
  EXPECT_EQ(run("exit_3"), 1);
  EXPECT_THAT(err(), HasSubstr("exited with code 3"));
}

TEST_F(Launch, AnExitWithZeroFromInsideIsADeath) {
  EXPECT_EQ(run("exit_0"), 1);
  EXPECT_THAT(err(), HasSubstr("exited with code 0"));
}

TEST_F(Launch, AStoppedRankIsAWarningThenAnEnd) {
  EXPECT_EQ(run("stop_self", {.deadline_seconds = 1.0}), 1);
  EXPECT_THAT(err(), ContainsRegex("warning: rank 2 .*it is stopped"));
  EXPECT_THAT(err(), ContainsRegex("error: rank 2 .*was stopped .*1.00 s"));
}

TEST_F(Launch, AStoppedRankMayContinue) {
  start("stop_self");
  ASSERT_TRUE(waits_until(
      [&] { return err().find("is stopped") != std::string::npos; }));
  killpg(front_, SIGCONT);
  EXPECT_TRUE(waits_until(
      [&] { return err().find("continues\n") != std::string::npos; }));
  killpg(front_, SIGINT);
  EXPECT_EQ(wait(), 130);
}

TEST_F(Launch, CtrlCStopsTheRanksCleanly) {
  start("wait");
  settle();
  killpg(front_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(out(), "rank 0 stopped cleanly\n");
  EXPECT_THAT(read_file(log(3)), HasSubstr("rank 3 stopped cleanly"));
  EXPECT_THAT(err(), HasSubstr("SIGINT"));
  EXPECT_THAT(err(), Not(HasSubstr("error")));
}

TEST_F(Launch, ASignalToTheFrontAloneReachesTheRanks) {
  start("wait");
  settle();
  kill(front_, SIGTERM);
  kill(front_, SIGINT);  // at once: the same request, sent twice
  EXPECT_EQ(wait(), 130);
  EXPECT_THAT(err(), Not(HasSubstr("again:")));
  EXPECT_EQ(out(), "rank 0 stopped cleanly\n");
}

TEST_F(Launch, AHangUpOfTheTerminalStopsTheRanksCleanly) {
  start("wait");
  settle();
  killpg(front_, SIGHUP);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(out(), "rank 0 stopped cleanly\n");
}

TEST_F(Launch, ARequestBeforeTheRanksExistReachesThem) {
  start("late");
  ASSERT_TRUE(waits_until([&] { return pids().size() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  killpg(front_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(out(), "rank 0 stopped cleanly\n");
}

TEST_F(Launch, ASecondSignalKills) {
  start("ignore_stop");
  settle();
  kill(front_, SIGINT);
  ASSERT_TRUE(
      waits_until([&] { return err().find("SIGINT: ") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(pids().size(), 6u) << "one request must not kill";
  kill(front_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_THAT(err(), HasSubstr("SIGINT again"));
}

TEST_F(Launch, TheGraceEnds) {
  start("ignore_stop", {.grace_seconds = 0.5});
  settle();
  kill(front_, SIGTERM);
  EXPECT_EQ(wait(), 130);
  EXPECT_THAT(err(), HasSubstr("did not stop within 500 ms"));
  EXPECT_THAT(err(), HasSubstr("rank 3 (dp 0, pp 1, tp 3"));
}

TEST_F(Launch, NothingOutlivesAFrontThatIsKilled) {
  start("wait");
  settle();
  kill(front_, SIGKILL);
  EXPECT_EQ(wait(), 1009);
  EXPECT_TRUE(waits_until([&] { return pids().empty(); }));
}

TEST_F(Launch, TheDeathOfTheRanksParentIsNamed) {
  EXPECT_EQ(run("kill_parent"), 1);
  EXPECT_THAT(err(),
              ContainsRegex("the parent of the ranks .* was killed by signal "
                            "9 \\(SIGKILL"));
}

TEST_F(Launch, AStoppedParentHidesNoDeath) {
  EXPECT_EQ(run("stop_parent"), 1);
  EXPECT_THAT(err(), HasSubstr("is stopped: kill -CONT it"));
  EXPECT_THAT(err(), ContainsRegex("error: rank 2 .* ended"));
}

TEST_F(Launch, AStoppedParentEndsTheRunAtTheDeadline) {
  EXPECT_EQ(run("stop_parent_alone", {.deadline_seconds = 1.0}), 1);
  EXPECT_THAT(err(), HasSubstr("is stopped: kill -CONT it"));
  EXPECT_THAT(err(),
              ContainsRegex("error: the parent of the ranks .*was stopped "
                            ".*1.00 s, the deadline"));
}

TEST_F(Launch, AProcessThatARankLeftBehindIsKilled) {
  EXPECT_EQ(run("orphan", {.world_size = 1}), 0);
  EXPECT_THAT(pids(), IsEmpty());
}

TEST_F(Launch, AProgramThatForksNoRanksIsNamedWithItsCode) {
  EXPECT_EQ(run("no_ranks"), 1);
  EXPECT_THAT(err(), HasSubstr("exited with code 9"));
}

TEST_F(Launch, WithoutAFrontTheParentTellsAndReturnsTheWorst) {
  EXPECT_EQ(run("kill_self", {.role = "alone"}), 1);
  EXPECT_THAT(err(), HasSubstr("was killed by signal 9"));
  EXPECT_EQ(run("return_2", {.role = "alone"}), 2);
}

TEST_F(Launch, AProgramStartsItsOwnRanks) {
  EXPECT_EQ(run("ok", {.role = "start"}), 0);
  EXPECT_EQ(out(), "hello from rank 0\nmain goes on\n");
  EXPECT_EQ(err(), "rank 0: a line\n");
  EXPECT_THAT(read_file(log(3)), HasSubstr("hello from rank 3\n"));
  EXPECT_EQ(run("return_2", {.role = "start"}), 2);
}

TEST_F(Launch, WhatHappensToItsRanksIsTold) {
  EXPECT_EQ(run("throw", {.role = "start"}), 1);
  EXPECT_EQ(count_of(err(), "x.bin"), 1) << err();
  EXPECT_EQ(run("kill_self", {.role = "start"}), 1);
  EXPECT_THAT(err(), HasSubstr("was killed by signal 9 (SIGKILL"));
}

TEST_F(Launch, CtrlCStopsItsRanksCleanly) {
  start("wait", {.role = "start"});
  settle();
  killpg(front_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(out(), "rank 0 stopped cleanly\nmain goes on\n");
}

TEST_F(Launch, NothingOutlivesAProgramThatIsKilled) {
  start("wait", {.role = "start"});
  settle();
  kill(front_, SIGKILL);
  EXPECT_EQ(wait(), 1009);
  EXPECT_TRUE(waits_until([&] { return pids().empty(); }));
}

TEST_F(Launch, RanksAreNotForkedBesideThreads) {
  EXPECT_EQ(run("threads", {.role = "start"}), 1);
  EXPECT_THAT(err(), HasSubstr("from a process with 2 threads: start them"));
}

TEST(FindRunProgram, NamesWhatIsMissing) {
  setenv("TRIAX_RUN", "/nowhere/triax-run", 1);
  try {
    find_run_program();
    FAIL() << "found it";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/triax-run"));
  }
  setenv("TRIAX_RUN", "/bin/true", 1);
  EXPECT_EQ(find_run_program(), "/bin/true");
  unsetenv("TRIAX_RUN");
}

TEST(StartProcess, SaysWhyAProgramDoesNotStart) {
  try {
    start_process({.program = "/nowhere/x",
                   .arguments = {},
                   .environment = {},
                   .inherited = {}});
    FAIL() << "started it";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

TEST(ReadTail, GivesTheLastLines) {
  const std::string path = testing::TempDir() + "triax_tail";
  std::ofstream(path) << "a\nb\n\nc";
  EXPECT_EQ(read_tail(path, 3), (std::vector<std::string>{"b", "", "c"}));
  EXPECT_EQ(read_tail(path, 9).size(), 4u);
  EXPECT_THAT(read_tail(path + ".none", 3), IsEmpty());
  fs::remove(path);
}

}  // namespace
}  // namespace triax
