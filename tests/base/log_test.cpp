// SPDX-License-Identifier: Apache-2.0
#include "triax/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace triax {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class Log : public testing::Test {
 protected:
  Log() {
    std::string pattern = testing::TempDir() + "triax_log_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    unsetenv("NO_COLOR");
    unsetenv("FORCE_COLOR");
  }
  ~Log() override {
    configure_log({});
    unsetenv("FORCE_COLOR");
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ + "/rank0003.log"; }

  std::vector<std::string> lines() const {
    std::ifstream in(path());
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) {
      out.push_back(line);
    }
    return out;
  }

  std::string folder_;
};

TEST_F(Log, WritesTimeRankAndLevelToTheFile) {
  configure_log({.rank = 3, .file = path(), .to_stderr = false});
  log_warning("loss ", 1.5, " at step ", 17);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_THAT(lines()[0],
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z "
                           "rank 3: warning: loss 1\\.5 at step 17"));
}

TEST_F(Log, WritesToStderrWithoutColourWhereItIsNoTerminal) {
  testing::internal::CaptureStderr();
  log_info("one");
  log_error("two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\nerror: two\n");
}

TEST_F(Log, DropsLinesBelowItsLevel) {
  configure_log(
      {.level = LogLevel::kWarning, .file = path(), .to_stderr = false});
  log_debug("a");
  log_info("b");
  log_warning("c");
  log_error("d");
  EXPECT_EQ(lines().size(), 2u);
  EXPECT_FALSE(is_logged(LogLevel::kInfo));
}

TEST_F(Log, AppendsToTheFileAndKeepsItPrivate) {
  configure_log({.file = path(), .to_stderr = false});
  log_info("before");
  configure_log({.file = path(), .to_stderr = false});
  log_info("after");
  EXPECT_EQ(lines().size(), 2u);
  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0177, 0u);
}

TEST_F(Log, CanWriteToTheFileAlone) {
  configure_log({.file = path()});
  testing::internal::CaptureStderr();
  write_log_file(LogLevel::kError, "only here");
  log_info("both");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "both\n");
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(Log, AFileThatCannotBeOpenedIsNamedAndTheFormerIsKept) {
  configure_log({.file = path(), .to_stderr = false});
  try {
    configure_log({.file = folder_ + "/none/x.log"});
    FAIL() << "opened a file in a folder that is not there";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/none/x.log"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
  log_info("still here");
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(Log, EscapesControlCharacters) {
  configure_log({.file = path(), .to_stderr = false});
  log_info("a\033[2Jb\tc\nd");
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT(lines()[0], HasSubstr("a\\x1b[2Jb\tc"));
  EXPECT_EQ(lines()[1], "d");
}

TEST_F(Log, ColoursByTheEnvironment) {
  EXPECT_FALSE(uses_color(-1));
  setenv("FORCE_COLOR", "1", 1);
  EXPECT_TRUE(uses_color(-1));
  testing::internal::CaptureStderr();
  log_warning("x");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "\033[33mwarning: \033[0mx\n");
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(uses_color(-1));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(uses_color(-1));
  setenv("FORCE_COLOR", "0", 1);
  EXPECT_FALSE(uses_color(-1));
  unsetenv("NO_COLOR");
}

TEST_F(Log, LinesOfThreadsAndProcessesNeverMix) {
  constexpr int kProcesses = 3;
  constexpr int kThreads = 3;
  constexpr int kLines = 200;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      configure_log({.rank = process, .file = path(), .to_stderr = false});
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([] {
          for (int line = 0; line < kLines; ++line) {
            log_info(std::string(100, 'x'));
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  ASSERT_EQ(lines().size(), size_t{kProcesses * kThreads * kLines});
  for (const std::string& line : lines()) {
    ASSERT_THAT(line, MatchesRegex(".{24} rank [0-9]: x{100}"));
  }
}

TEST_F(Log, ReadsItsLevels) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("error"), LogLevel::kError);
  EXPECT_THROW(parse_log_level("verbose"), Error);
}

TEST(EscapeControls, KnowsThoseOfTwoBytesToo) {
  EXPECT_EQ(escape_controls("a\x1b[m\x7f\n\xc2\x9b"
                            "b\xc2\xa0"),
            "a\\x1b[m\\x7f\n\\x9bb\xc2\xa0");
}

}  // namespace
}  // namespace triax
