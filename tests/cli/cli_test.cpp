// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/program.h"
#include "triax/base/file.h"
#include "triax/base/json.h"
#include "triax/config/load.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kRunFile =
    "[data]\npath = \"text\"\nsequence_length = 16\n"
    "[parallel]\ntp = 2\n";

// The program in a folder of its own, with a stand-in for triax-run.
class Cli : public testing::Test {
 protected:
  Cli() {
    write("text", std::string(1000, 'a'));
    write("a.toml", kRunFile);
  }

  void write(const std::string& name, const std::string& text) const {
    program_.write(name, text);
  }
  std::string read(const std::string& name) const {
    return program_.read(name);
  }
  // A triax-run that notes its arguments and ends with `code`.
  void stand_in(int code) const {
    write("run",
          "#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\nexit " +
              std::to_string(code) + "\n");
    fs::permissions(folder_ / "run", fs::perms::owner_all);
  }
  Output triax(const std::string& arguments) const {
    return program_.run(arguments, "TRIAX_RUN=./run");
  }

  ProgramFolder program_;
  const fs::path& folder_ = program_.path();
};

TEST_F(Cli, TheFrontLinksNoLibTorch) {
  const std::string command = "ldd '" TRIAX_BUILD_DIR "/bin/triax' >'" +
                              (folder_ / "ldd").string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(read("ldd"), HasSubstr("libc.so"));
  EXPECT_THAT(read("ldd"), testing::Not(HasSubstr("torch")));
  EXPECT_THAT(read("ldd"), testing::Not(HasSubstr("libc10")));
}

TEST_F(Cli, HelpAndVersionGoToStdout) {
  EXPECT_EQ(triax("--help").code, 0);
  const Output version = triax("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("triax 0."));
  EXPECT_THAT(version.out, HasSubstr("compiler: "));
  const Output help = triax("train --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("parallel.tp"));
  EXPECT_THAT(triax("--help").out, testing::Not(HasSubstr("docs")));
}

TEST_F(Cli, WrongUseIsTwo) {
  for (const char* arguments : {"",
                                "trian a.toml",
                                "train",
                                "train a.toml --no-such",
                                "train a.toml --ranks 0",
                                "train a.toml -q -v",
                                "train a.toml --resume auto",
                                "check",
                                "check a.toml --format xml",
                                "verify a.toml --steps 0",
                                "check none.toml",
                                "check .",
                                "train none.toml"}) {
    const Output result = triax(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.out + result.err, "") << arguments;
  }
}

TEST_F(Cli, CheckReportsOnStdout) {
  EXPECT_EQ(triax("check a.toml").code, 0);
  write("b.toml", "[data]\npath = \"text\"\n[parallel]\ntp = 3\npq = 2\n");
  const Output result = triax("check a.toml b.toml");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out,
              testing::StartsWith("b.toml:4:6: error[heads-divide]: "
                                  "parallel.tp: "));
  EXPECT_THAT(result.out, HasSubstr("b.toml:5:1: error[unknown-key]"));
  EXPECT_THAT(result.out, HasSubstr("2 errors, 0 warnings"));
}

TEST_F(Cli, CheckSpeaksJson) {
  write("b.toml", "[data]\npath = \"text\"\n[parallel]\ntp = 3\n");
  const Output result = triax("check a.toml b.toml --format json");
  EXPECT_EQ(result.code, 1);
  const Json problems = parse_json(result.out, "out");
  ASSERT_EQ(problems.size(), 1u + (problems.size() > 1));
  EXPECT_EQ(problems[0]["rule"], "heads-divide");
  EXPECT_EQ(problems[0]["file"], "b.toml");
  EXPECT_EQ(problems[0]["line"], 4);
  EXPECT_EQ(problems[0]["severity"], "error");
  EXPECT_EQ(triax("check a.toml --format json").out, "[]\n");
}

TEST_F(Cli, CheckKnowsTheRanks) {
  const Output result = triax("check a.toml --ranks 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("error[world-size]"));
}

TEST_F(Cli, AWarningIsAFindingOfCheckButStopsNoRun) {
  write("b.toml", std::string(kRunFile) + "[optimizer]\nmomentum = 0.5\n");
  EXPECT_EQ(triax("check b.toml").code, 1);
  const Output dry = triax("train b.toml --dry-run");
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.err, HasSubstr("warning[no-effect]"));
  EXPECT_EQ(triax("train b.toml --dry-run -q").err, "");
}

TEST_F(Cli, PrintConfigRunsAgainAsItIs) {
  const Output first = triax(
      "train a.toml training.steps=7 parallel.order=dp-tp-pp "
      "--print-config --ranks 4");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("steps = 7\n"));
  EXPECT_THAT(first.out, HasSubstr("dp = 2\n"));
  write("b.toml", first.out);
  EXPECT_EQ(triax("train b.toml --print-config").out, first.out);
}

TEST_F(Cli, TrainStopsAtErrorsBeforeAnythingIsMade) {
  stand_in(0);
  const Output result = triax("train a.toml parallel.tp=3");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("command line: error[heads-divide]"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_FALSE(fs::exists(folder_ / "arguments"));
  EXPECT_EQ(triax("train a.toml --dry-run").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Cli, TrainHandsTheResolvedConfigToTheRanks) {
  stand_in(0);
  const Output result = triax("train a.toml training.steps=7 -v");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("ended without starting rank 0"));
  EXPECT_EQ(read("arguments"), "train\nruns/a/run.toml\n--verbose\n");
  const RunConfig config = load_run((folder_ / "runs/a/run.toml").string());
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.parallel.tp, 2);
  EXPECT_EQ(config.parallel.dp, 1);
  EXPECT_EQ(config.run.dir, "runs/a");
  EXPECT_THAT(read("runs/a/run.toml"),
              testing::StartsWith("# triax train a.toml training.steps=7\n"));
}

TEST_F(Cli, RunsNeverShareAFolder) {
  stand_in(0);
  triax("train a.toml");
  triax("train a.toml");
  EXPECT_THAT(read("arguments"), HasSubstr("runs/a-2/run.toml"));
  triax("train a.toml run.dir=x/y");
  EXPECT_TRUE(fs::exists(folder_ / "x/y/run.toml"));
  const Output again = triax("train a.toml run.dir=x/y");
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("run-dir-exists"));
}

TEST_F(Cli, TheRanksExitCodeIsOurs) {
  stand_in(1);
  EXPECT_EQ(triax("train a.toml").code, 1);
  fs::remove(folder_ / "run");
  const Output missing = triax("train a.toml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err, "");
  EXPECT_FALSE(fs::exists(folder_ / "runs/a-2"));
}

TEST_F(Cli, VerifyPassesItsOptionsOnAndHasAFolderOfItsOwn) {
  stand_in(1);
  triax("verify a.toml --json --break swap-heads --steps 3 run.dir=x/y/");
  EXPECT_EQ(
      read("arguments"),
      "verify\nx/y-verify/run.toml\n--json\n--break\nswap-heads\n--steps\n3\n");
  const Output different = triax("verify a.toml");
  EXPECT_EQ(different.code, 1);
  EXPECT_THAT(different.err, HasSubstr("runs/a-verify"));
}

TEST_F(Cli, TheExamplesAreInOrder) {
  for (const char* name : {"configs", "examples"}) {
    const fs::path examples = fs::path(TRIAX_SOURCE_DIR) / name;
    int num_files = 0;
    for (const auto& entry : fs::directory_iterator(examples)) {
      if (entry.path().extension() != ".toml") {
        continue;
      }
      ++num_files;
      write("corpus", std::string(100'000, 'a'));
      const Output result = triax("train '" + entry.path().string() +
                                  "' data.path=corpus --dry-run");
      EXPECT_EQ(result.code, 0) << entry.path() << "\n" << result.err;
      EXPECT_EQ(result.err.find("warning"), std::string::npos) << result.err;
    }
    EXPECT_GT(num_files, 0) << name;
  }
}

}  // namespace
}  // namespace triax
