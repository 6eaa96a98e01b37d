// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/program.h"
#include "triax/base/json.h"

namespace triax {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CheckCli : public testing::Test {
 protected:
  CheckCli() {
    write("good.json",
          "{\"train_batch_size\": 8, \"gradient_clipping\": 1.0}\n");
    write("bad.json",
          "{\n  # kept\n  \"train_batch_size\": 8,\n"
          "  \"graient_clipping\": 1.0\n}\n");
  }

  void write(const std::string& name, const std::string& text) const {
    program_.write(name, text);
  }
  std::string read(const std::string& name) const {
    return program_.read(name);
  }
  Output check(const std::string& arguments) const {
    return program_.run("check " + arguments);
  }

  ProgramFolder program_;
  const fs::path& folder_ = program_.path();
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
  // The cluster's 32 devices hold a smaller run, and no larger one.
  EXPECT_NE(check("good.json --world 16 --cluster c.toml").code, 2);
  const Output larger = check("good.json --world 64 --cluster c.toml");
  EXPECT_EQ(larger.code, 2);
  EXPECT_THAT(larger.err,
              HasSubstr("--world 64 is more than the 32 devices of --cluster "
                        "c.toml (hosts * devices_per_host)"));
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

TEST_F(CheckCli, FixesInPlaceAndNotWhatIsReadOnly) {
  fs::create_hard_link(folder_ / "bad.json", folder_ / "other.json");
  struct stat before {};
  ASSERT_EQ(::stat(program_.file("bad.json").c_str(), &before), 0);
  EXPECT_EQ(check("bad.json --fix").code, 0);
  struct stat after {};
  ASSERT_EQ(::stat(program_.file("bad.json").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(after.st_nlink, 2u);
  EXPECT_EQ(read("other.json"), read("bad.json"));
  const std::string text = "{\"train_batch_size\": 8, \"graient_clipping\": 1}";
  write("kept.json", text);
  fs::permissions(folder_ / "kept.json", fs::perms(0444));
  const Output kept = check("kept.json --fix");
  EXPECT_EQ(kept.code, 2);
  EXPECT_EQ(kept.err,
            "error: cannot fix kept.json: it is read-only; nothing was "
            "written\n");
  EXPECT_EQ(read("kept.json"), text);
  EXPECT_EQ(fs::status(folder_ / "kept.json").permissions(), fs::perms(0444));
  write("twice.json", text);
  EXPECT_EQ(check("twice.json ./twice.json --fix").code, 0);
}

TEST_F(CheckCli, FixesTriaxsOwnFiles) {
  const std::string rest =
      "hidden_size = 64\nnum_attention_heads = 4\nvocab_size = 64\n"
      "[data]\npath = \"good.json\"\n";
  write("run.toml", "[model]\nnum_hidden_layer = 2  # two\n" + rest);
  const Output fixed = check("run.toml --fix");
  EXPECT_THAT(fixed.err,
              HasSubstr("-num_hidden_layer = 2  # two\n"
                        "+num_hidden_layers = 2  # two\n"));
  EXPECT_THAT(fixed.out, testing::Not(HasSubstr("unknown-key")));
  EXPECT_EQ(read("run.toml"), "[model]\nnum_hidden_layers = 2  # two\n" + rest);
}

// A shorter text leaves nothing of the longer one behind.
TEST_F(CheckCli, FixesToAShorterText) {
  write("long.json", "{\"train_batch_size\": 8, \"gradient_clippping\": 1.0}");
  EXPECT_EQ(check("long.json --fix").code, 0);
  EXPECT_EQ(read("long.json"),
            "{\"train_batch_size\": 8, \"gradient_clipping\": 1.0}");
}

// What a key with another number does is another thing.
TEST_F(CheckCli, LeavesSlipsThatMayMeanSomethingElse) {
  const std::string text =
      "{\"train_batch_size\": 8, \"gradient_clipping\": 1.0,\n"
      " \"bf15\": {\"enabled\": true}}";
  write("bf15.json", text);
  const Output result = check("bf15.json --fix");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("did you mean"));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(read("bf15.json"), text);
  const std::string flags =
      "pretrain_gpt.py --bf15 --num-layers 2 --hidden-size 8 "
      "--num-attention-heads 2\n";
  write("bf15.sh", flags);
  check("bf15.sh --kind megatron --fix");
  EXPECT_EQ(read("bf15.sh"), flags);
}

TEST_F(CheckCli, TakesTheVersionOfMegatronAtItsWord) {
  write("args.txt",
        "--num-layers 2\n--hidden-size 8\n--patch-tokenizer-type A\n");
  EXPECT_EQ(check("args.txt --kind megatron").code, 0);
  const Output named = check("args.txt --kind megatron@0.19.2");
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.out, HasSubstr("error[removed-key]: patch-tokenizer-type"));
}

TEST_F(CheckCli, AcceptsAByteOrderMarkAndKeepsIt) {
  const std::string mark = "\xef\xbb\xbf";
  write("m.json", mark + "{\"train_batch_size\": 8, \"graient_clipping\": 1}");
  const Output fixed = check("m.json --fix");
  EXPECT_EQ(fixed.code, 0) << fixed.out << fixed.err;
  EXPECT_EQ(read("m.json"),
            mark + "{\"train_batch_size\": 8, \"gradient_clipping\": 1}");
  write("m.toml", mark + "[parallel]\ntp = 2\n[data]\npath = \"m.json\"\n");
  EXPECT_THAT(check("m.toml").out, testing::Not(HasSubstr("error[syntax]")));
  write("text", std::string(1000, 'a'));
  write("run.toml", mark + "[data]\npath = \"text\"\nsequence_length = 16\n");
  EXPECT_EQ(program_.run("train run.toml --dry-run").code, 0);
  write("t.toml", mark + "[job]\ndescription = \"x\"\n[parallelism]\n");
  const Output titan = check("t.toml");
  EXPECT_EQ(titan.code, 1) << titan.out;
  EXPECT_THAT(titan.out,
              HasSubstr("t.toml:1:1: error[byte-order-mark]: the file begins "
                        "with a byte order mark, at which Python's tomllib "
                        "stops [refused]"));
  write("a.txt", mark + "--num-layers 2\n--hidden-size 8\n--bf16\n");
  EXPECT_EQ(check("a.txt --kind megatron").code, 0) << check("a.txt").out;
  const std::string yaml =
      read_file(TRIAX_SOURCE_DIR "/tests/cases/nanotron/plain.yaml", 1 << 20);
  write("n.yaml", mark + yaml);
  EXPECT_EQ(check("n.yaml").code, 0) << check("n.yaml").out;
}

TEST_F(CheckCli, RefusesWrongUse) {
  const std::string words = " -- --num-layers 2";
  for (const std::string& arguments :
       {std::string("good.json --to ''"),
        std::string("good.json --kind ''"),
        std::string("good.json --model ''"),
        std::string("good.json --cluster ''"),
        std::string("good.json --reference ''"),
        std::string("good.json --to megatron --fix"),
        std::string("good.json --to megatron --format json"),
        std::string("good.json --to deepspeed"),
        "--kind triax" + words,
        "--kind deepspeed" + words,
        "--kind vim" + words,
        "good.json bad.json" + words,
        "good.json --to megatron" + words}) {
    const Output result = check(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.err, "") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
  EXPECT_EQ(check("--kind megatron" + words).code, 1);
  EXPECT_EQ(check("good.json --kind deepspeed" + words).code,
            check("good.json" + words).code);
}

TEST_F(CheckCli, TakesTheVersionsThatItKnows) {
  write("t.toml", "[job]\ndescription = \"x\"\n");
  const std::string cases = TRIAX_SOURCE_DIR "/tests/cases/nanotron/";
  const std::string plain = "'" + cases + "plain.yaml' --kind nanotron@";
  const std::string old = "'" + cases + "old_plain.yaml' --kind nanotron@";
  for (const std::string& arguments :
       {std::string("good.json --kind deepspeed@0.19.8"),
        std::string("good.json --kind deepspeed@0.12.6"),
        std::string("good.json --kind deepspeed@0.16"),
        std::string("t.toml --kind torchtitan@0.2.2"),
        plain + "main",
        old + "0.4",
        std::string("--kind megatron@0.19.2 -- mine.py --num-layers 2")}) {
    EXPECT_EQ(check(arguments).code, 0) << arguments << check(arguments).err;
  }
  for (const std::string& arguments :
       {std::string("good.json --kind deepspeed@banana"),
        std::string("good.json --kind deepspeed@"),
        std::string("good.json --kind deepspeed@0.9.1"),
        std::string("good.json --kind deepspeed@1.0.0"),
        std::string("t.toml --kind torchtitan@0.1.0"),
        std::string("t.toml --kind triax@1"),
        plain + "0.4",
        old + "main",
        plain + "0.5",
        std::string("--kind megatron@0.1 -- --num-layers 2")}) {
    const Output result = check(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.err, "") << arguments;
  }
  EXPECT_THAT(check("t.toml --kind torchtitan@0.1.0").err,
              HasSubstr("valid are 0.2.2"));
}

TEST_F(CheckCli, TellsTomlByItsKeys) {
  write("pyproject.toml",
        "[build-system]\nrequires = [\"x\"]\n[project]\nname = \"y\"\n"
        "[tool.black]\nline-length = 80\n");
  write("Cargo.toml",
        "[package]\nname = \"x\"\n[dependencies]\nserde = \"1\"\n"
        "[profile.release]\nopt-level = 3\n");
  write("empty.toml", "");
  for (const char* name : {"pyproject.toml", "Cargo.toml", "empty.toml"}) {
    const Output result = check(name);
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.out, HasSubstr("--kind")) << name;
    EXPECT_THAT(result.out, HasSubstr("TorchTitan")) << name;
  }
  write("titan.toml",
        "[training]\nlocal_batch_size = 8\nsteps = 5\n[optimizer]\nlr = 1\n");
  EXPECT_THAT(check("titan.toml").out,
              testing::Not(HasSubstr("microbatch_size")));
  EXPECT_THAT(check("titan.toml --kind triax").out,
              HasSubstr("error[unknown-key]"));
  EXPECT_THAT(check("titan.toml").out,
              testing::Not(HasSubstr("error[unknown-key]")));
  write("mine.toml", "[training]\nmicrobatch_size = 2\nsteps = 5\n");
  EXPECT_THAT(check("mine.toml").out, HasSubstr("data.path"));
  write("broken.toml", "[parallel]\ntp = = 2\n");
  EXPECT_THAT(check("broken.toml").out, HasSubstr("error[syntax]"));
}

TEST_F(CheckCli, SaysThatThreeAreNoPair) {
  write("a.sh",
        "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 8 "
        "--num-attention-heads 2 --bf16\n");
  const std::string alone = "each checked alone";
  EXPECT_THAT(check("good.json a.sh").out, testing::Not(HasSubstr(alone)));
  EXPECT_THAT(check("good.json a.sh bad.json").out, HasSubstr(alone));
  EXPECT_THAT(check("none.json good.json a.sh").out, HasSubstr(alone));
  write("t.toml", "[parallel]\ntp = 2\n");
  EXPECT_THAT(check("good.json t.toml").out, HasSubstr(alone));
  EXPECT_THAT(check("good.json bad.json good.json").out,
              testing::Not(HasSubstr(alone)));
}

TEST_F(CheckCli, SaysHowManyFindingsAreLeftOut) {
  std::string text = "{\"train_batch_size\": 8, \"gradient_clipping\": 1";
  for (int i = 0; i < 1500; ++i) {
    text += ",\n\"unknown_" + std::to_string(i) + "\": 1";
  }
  write("many.json", text + ", \"zero_optimization\": {\"stage\": 7}}");
  const Output result = check("many.json");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("more findings are left out"));
  EXPECT_THAT(result.out, HasSubstr("note[left-out]"));
}

// The ranks of --cluster are those of the check and of the translation.
TEST_F(CheckCli, HasOneWorldForATriaxFile) {
  write("c.toml", "hosts = 2\ndevices_per_host = 4\n");
  write("text", std::string(1000, 'a'));
  write("r.toml", "[parallel]\ntp = 2\n[data]\npath = \"text\"\n");
  EXPECT_THAT(check("r.toml --cluster c.toml --to nanotron").out,
              HasSubstr("dp: 4\n"));
  EXPECT_EQ(check("r.toml --world 8 --to nanotron").out,
            check("r.toml --cluster c.toml --to nanotron").out);
  write("r.toml", "[parallel]\ntp = 3\n[data]\npath = \"text\"\n");
  EXPECT_THAT(check("r.toml --cluster c.toml").out,
              HasSubstr("error[world-size]"));
}

TEST_F(CheckCli, ComparesATriaxFileWithItsReference) {
  write("text", std::string(5000, 'a'));
  const std::string data = "[data]\npath = \"text\"\nsequence_length = 64\n";
  const std::string rate = "[optimizer]\nlr = 1e-3\n";
  write("old.toml", data + rate + "[training]\nglobal_batch_size = 4\n");
  write("new.toml", data + rate + "[training]\nglobal_batch_size = 16\n");
  EXPECT_EQ(check("new.toml").code, 0) << check("new.toml").out;
  const Output said = check("new.toml --reference old.toml");
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out,
              HasSubstr("new.toml:5:6: warning[lr-not-scaled]: optimizer.lr: "
                        "the global batch is 16 and was 4 in old.toml, 4 times "
                        "as much, and the learning rate stayed 0.001"));
  EXPECT_EQ(check("new.toml --reference new.toml").code, 0);
  // Of another system, and the other way round.
  write("ds.json",
        "{\"train_batch_size\": 4, \"gradient_clipping\": 1, \"optimizer\": "
        "{\"type\": \"AdamW\", \"params\": {\"lr\": 0.001}}}");
  EXPECT_THAT(check("new.toml --reference ds.json").out,
              HasSubstr("lr-not-scaled"));
  EXPECT_THAT(check("ds.json --reference new.toml").out,
              HasSubstr("lr-not-scaled"));
  write("broken.toml", "[training\n");
  const Output refused = check("new.toml --reference broken.toml");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--reference broken.toml: "));
}

// The base of mistral-7b depends on its release; its name alone says none.
TEST_F(CheckCli, SaysWhichDetailOfAModelIsOpen) {
  const std::string words = "good.json --world 8 --to nanotron --model ";
  EXPECT_THAT(
      check(words + "mistral-7b").err,
      HasSubstr("to fill in: rope_theta: mistral-7b's first release has "
                "10000, the later ones 1000000"));
  EXPECT_THAT(check(words + "llama-3-8b").err,
              testing::Not(HasSubstr("to fill in: rope_theta")));
}

TEST_F(CheckCli, NamesTheLayoutsThatCanBeWritten) {
  const Output refused = check("good.json --to foo");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("nanotron@0.4"));
}

TEST_F(CheckCli, PrintsNoControlCharacters) {
  write("esc.json",
        "{\"train_batch_size\": 8, \"a\x1b[31mb\": 1,"
        " \"graient_clipping\": \"\xc2\x9b\"}");
  write("fix.json",
        "{\"train_batch_size\": 8, \"graient_clipping\": 1, \"_\x1b[2J\": 1}");
  for (const std::string& arguments :
       {std::string("esc.json"),
        std::string("esc.json --format json"),
        std::string("esc.json --format sarif"),
        std::string("esc.json --format github"),
        std::string("fix.json --fix"),
        std::string("esc.json --to nanotron"),
        std::string("good.json --kind $'a\\x1bb'"),
        std::string("$'a\\x1bb.json'")}) {
    const Output result = program_.run("check " + arguments, "PATH=\"$PATH\"");
    EXPECT_THAT(result.out, testing::Not(HasSubstr("\x1b"))) << arguments;
    EXPECT_THAT(result.out, testing::Not(HasSubstr("\xc2\x9b"))) << arguments;
    EXPECT_THAT(result.err, testing::Not(HasSubstr("\x1b"))) << arguments;
  }
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
  const Output told =
      check("ds.json --to nanotron --model llama-3-8b --world 8");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("num_hidden_layers: 32\n"));
  EXPECT_THAT(told.out, HasSubstr("dp: 8\n"));
  EXPECT_THAT(told.err, HasSubstr("not carried: zero_stage 3 (from "));
  EXPECT_THAT(told.err, HasSubstr("to fill in: "));
  // The errors of the config itself are said, and no others come to them.
  const Output faulty = check("bad.json --to nanotron");
  EXPECT_EQ(faulty.code, 1);
  EXPECT_THAT(faulty.err, HasSubstr("error[unknown-key]"));
  EXPECT_THAT(faulty.err, HasSubstr("not carried: graient_clipping 1"));
  EXPECT_THAT(faulty.out, HasSubstr("zero_stage"));
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
