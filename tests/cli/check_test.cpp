// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "triax/base/file.h"
#include "triax/base/json.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Output {
  int code = -1;
  std::string out;
  std::string err;
};

class CheckCli : public testing::Test {
 protected:
  CheckCli() {
    std::string pattern = (fs::temp_directory_path() / "chk.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    write("good.json",
          "{\"train_batch_size\": 8, \"gradient_clipping\": 1.0}\n");
    write("bad.json",
          "{\n  # kept\n  \"train_batch_size\": 8,\n"
          "  \"graient_clipping\": 1.0\n}\n");
  }
  ~CheckCli() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    write_file_atomically((folder_ / name).string(), text);
  }
  std::string read(const std::string& name) const {
    return read_file((folder_ / name).string(), 1 << 22);
  }
  Output check(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && '" +
                                TRIAX_BUILD_DIR "/bin/triax' check " +
                                arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read("out"), read("err")};
  }

  fs::path folder_;
};

TEST_F(CheckCli, TellsTheKindAndTheExitCode) {
  EXPECT_EQ(check("good.json").code, 0);
  const Output bad = check("bad.json");
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out,
              HasSubstr("bad.json:4:3: error[unknown-key]: "
                        "graient_clipping: "));
  EXPECT_THAT(bad.out, HasSubstr("1 error, 0 warnings, 2 notes\n"));
  write("note.json", "{\"train_batch_size\": 8}");
  EXPECT_EQ(check("note.json").code, 0);
  write("broken.json", "{\"train_batch_size\": ");
  EXPECT_EQ(check("broken.json").code, 2);
  EXPECT_EQ(check("none.json").code, 2);
  write("what", "hello");
  const Output what = check("what");
  EXPECT_EQ(what.code, 2);
  EXPECT_THAT(what.out, HasSubstr("--kind"));
  EXPECT_EQ(check("good.json --kind vim").code, 2);
  EXPECT_EQ(check("what --kind deepspeed").code, 2);
}

TEST_F(CheckCli, KnowsTheWorldTheModelAndTheCluster) {
  write("tp.json",
        "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_clipping\": 1,"
        " \"tensor_parallel\": {\"autotp_size\": 16}}");
  EXPECT_THAT(check("tp.json").out, HasSubstr("note[not-judged]"));
  EXPECT_EQ(check("tp.json").code, 0);
  write("c.toml", "hosts = 4\ndevices_per_host = 8\n");
  const Output result = check("tp.json --model gpt2 --cluster c.toml");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("tp-crosses-hosts"));
  EXPECT_THAT(result.out, HasSubstr("12 attention heads"));
  write("d.toml", "host = 4\n");
  EXPECT_EQ(check("tp.json --cluster d.toml").code, 2);
  EXPECT_EQ(check("tp.json --model nobody").code, 2);
  write("b.json", "{\"train_batch_size\": 9, \"gradient_clipping\": 1}");
  EXPECT_EQ(check("b.json").code, 0);
  EXPECT_EQ(check("b.json --world 2").code, 1);
}

TEST_F(CheckCli, KnowsTheReleasesOfAKind) {
  write("elastic.json",
        "{\"elasticity\": {\"enabled\": true, \"micro_batch_sizes\": [2], "
        "\"max_train_batch_size\": 8}}");
  EXPECT_EQ(check("elastic.json --kind deepspeed@0.14").code, 0);
  EXPECT_EQ(check("elastic.json --kind deepspeed").code, 1);
  for (const char* wrong : {"deepspeed@9.9", "deepspeed@abc", "deepspeed@"}) {
    const Output output = check(std::string("good.json --kind ") + wrong);
    EXPECT_EQ(output.code, 2) << wrong;
    EXPECT_THAT(output.err, HasSubstr("0.14.0 to 0.14.5")) << wrong;
  }
}

TEST_F(CheckCli, SpeaksFourFormats) {
  const Json sarif = parse_json(check("bad.json --format sarif").out, "sarif");
  EXPECT_EQ(sarif["runs"][0]["results"].size(), 3u);
  EXPECT_THAT(check("bad.json --format github").out,
              HasSubstr("::error file=bad.json,line=4,col=3,title=unknown-key"
                        "::graient_clipping: "));
  const Json json = parse_json(check("bad.json --format json").out, "json");
  EXPECT_EQ(json[1]["effect"], "ignored");
}

TEST_F(CheckCli, FixesWhatIsSafeAndLosesNothing) {
  fs::permissions(folder_ / "bad.json", fs::perms(0640));
  fs::create_symlink("bad.json", folder_ / "link.json");
  const Output fixed = check("link.json --fix");
  EXPECT_EQ(fixed.code, 0) << fixed.out;
  EXPECT_THAT(fixed.err,
              HasSubstr("-  \"graient_clipping\": 1.0\n"
                        "+  \"gradient_clipping\": 1.0\n"));
  EXPECT_EQ(read("bad.json"),
            "{\n  # kept\n  \"train_batch_size\": 8,\n"
            "  \"gradient_clipping\": 1.0\n}\n");
  EXPECT_EQ(fs::status(folder_ / "bad.json").permissions(), fs::perms(0640));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(check("link.json --fix").err, "");
}

TEST_F(CheckCli, NeverMakesOneKeyOfTwo) {
  const std::string text =
      "{\"train_batch_size\": 8, \"steps_per_prnt\": 1,\n"
      " \"steps_per_pint\": 2, \"gradient_clipping\": 1.0}\n";
  write("two.json", text);
  EXPECT_EQ(check("two.json --fix").code, 1);
  EXPECT_EQ(read("two.json"), text);
}

TEST_F(CheckCli, LeavesOtherProgramsYamlAlone) {
  write("other.yaml", "model: gpt\nsteps: 10\npipe_parallel_size: 2\n");
  const Output result = check("other.yaml");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.out + result.err, HasSubstr("--kind"));
}

// 8 microbatches, 4 stages of 4 chunks of 5 layers: 3 / (8 * 4 + 3) = 9 %.
TEST_F(CheckCli, CountsTheChunksThatLayersSay) {
  const std::string run =
      "--kind megatron --world 4 -- --num-layers 80 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
      "--micro-batch-size 1 --global-batch-size 8 --lr 1e-4 --train-iters 9 "
      "--pipeline-model-parallel-size 4 ";
  EXPECT_THAT(check(run).out, HasSubstr("few-microbatches"));
  EXPECT_THAT(check(run + "--num-layers-per-virtual-pipeline-stage 5").out,
              testing::Not(HasSubstr("few-microbatches")));
}

TEST_F(CheckCli, SurvivesHostileFiles) {
  write("deep.json", std::string(100'000, '['));
  write("braces.json", std::string(100'000, '{'));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) {
    nested += "{a:";
  }
  write("nested.json", nested);
  write("nul.json", std::string("{a\0b: 1}", 8));
  write("bytes.json", "{\"a\": \"\xff\xfe\"}");
  write("numbers.json",
        "{\"train_batch_size\": 8, \"steps_per_print\": 1e308,"
        " \"vocabulary_size\": -9223372036854775808,"
        " \"gradient_clipping\": 1e-320}");
  for (const char* name :
       {"deep.json", "braces.json", "nested.json", "nul.json", "bytes.json"}) {
    const Output result = check(std::string(name) + " --kind deepspeed");
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.out, HasSubstr("error[syntax]")) << name;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2)
        << result.out;
  }
  EXPECT_EQ(check("numbers.json").code, 1);
  const fs::path huge = folder_ / "huge.json";
  write("huge.json", "{}");
  fs::resize_file(huge, 100 << 20);
  const Output result = check("huge.json");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("error[unreadable]"));
}

TEST_F(CheckCli, ReadsManyFilesInOneCall) {
  std::string names;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i) + ".json";
    write(name, "{\"train_batch_size\": 8, \"graient_clipping\": 1}");
    names += name + " ";
  }
  const Output result = check(names);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("200 errors, 0 warnings, 400 notes"));
}

TEST_F(CheckCli, TranslatesOneConfig) {
  write("ds.json",
        "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2,"
        " \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
        "3}}");
  const Output result = check("ds.json --to megatron");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("--micro-batch-size 2\n"));
  EXPECT_THAT(result.out, HasSubstr("--bf16\n"));
  const Output titan = check("ds.json --to torchtitan");
  EXPECT_THAT(titan.out, HasSubstr("[training]\n"));
  EXPECT_EQ(check("ds.json --to vim").code, 2);
  EXPECT_EQ(check("none.json --to triax").code, 2);
  EXPECT_EQ(check("ds.json bad.json --to triax").code, 2);
}

TEST_F(CheckCli, ComparesWithAReference) {
  write("old.json",
        "{\"train_batch_size\": 8, \"gradient_clipping\": 1, \"optimizer\": "
        "{\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}}");
  write("new.json",
        "{\"train_batch_size\": 32, \"gradient_clipping\": 1, \"optimizer\": "
        "{\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}}");
  EXPECT_EQ(check("new.json").code, 0);
  const Output result = check("new.json --reference old.json");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("warning[lr-not-scaled]"));
}

}  // namespace
}  // namespace triax
