// SPDX-License-Identifier: Apache-2.0
// Draws a layout, a model, a batch and the options of training, and compares
// with one rank. Half of the draws are the same in every run, half are new;
// `make test` takes their seed from the tree, so that it repeats.
//   TRIAX_WALK_DRAWS=500 TRIAX_WALK_SEED=17 test_parity --gtest_filter=Walk.*
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_corpus.h"
#include "triax/base/file.h"
#include "triax/check/check.h"

namespace triax {
namespace {

constexpr uint64_t kFixedSeed = 1;
constexpr int kMaxRanks = 8;
constexpr int kMaxShrinks = 60;

/// The choice in each dimension of the space; 0 is the simplest.
using Draw = std::vector<int>;

/// Dimensions whose meaning depends on each other, and their sizes.
enum Dimension {
  kLayout,
  kFamily,
  kHeads,
  kKvHeads,
  kHeadDim,
  kHidden,
  kLayers,
  kStages,
  kMicrobatch,
  kAccumulation,
  kFreeze,
  kGroup,
  kSequence,
  kZeroGroup,
  kNumDependent
};

struct Degrees {
  int tp, pp, dp;
};

const std::vector<Degrees>& all_degrees() {
  static const std::vector<Degrees> table = [] {
    std::vector<Degrees> degrees;
    for (int world = 1; world <= kMaxRanks; ++world) {
      for (int tp = 1; tp <= world; ++tp) {
        for (int pp = 1; tp * pp <= world; ++pp) {
          if (world % (tp * pp) == 0) {
            degrees.push_back({tp, pp, world / (tp * pp)});
          }
        }
      }
    }
    return degrees;
  }();
  return table;
}

constexpr int kDependentSizes[kNumDependent - 1] = {
    2, 3, 4, 3, 4, 3, 4, 3, 4, 4, 2, 3, 2};

/// fp16 rarely: a CPU takes its time over it. Its scale suits few tokens.
std::vector<Overrides> precisions() {
  const std::vector<Overrides> often = {{},
                                        {"training.precision=fp32"},
                                        {"training.precision=bf16_autocast"},
                                        {"training.precision=bf16"}};
  std::vector<Overrides> all = often;
  all.insert(all.end(), often.begin(), often.end());
  all.push_back({"training.precision=fp16", "training.initial_loss_scale=16"});
  return all;
}

Overrides activations_on_file() {
  return {"memory.offload=nvme",
          "memory.offload_states=[\"activations\"]",
          "memory.offload_dir=/dev/shm"};
}

/// Dimensions that only set keys, whatever the others are.
const std::vector<std::vector<Overrides>>& independent() {
  static const std::vector<std::vector<Overrides>> table = {
      {{},
       {"parallel.order=tp-dp-pp"},
       {"parallel.order=pp-tp-dp"},
       {"parallel.order=pp-dp-tp"},
       {"parallel.order=dp-tp-pp"},
       {"parallel.order=dp-pp-tp"}},
      {{}, {"parallel.schedule=gpipe"}},
      {{}, {"parallel.zero=1"}, {"parallel.zero=2"}, {"parallel.zero=3"}},
      {{},
       {"model.intermediate_size=23"},
       {"model.intermediate_size=7"},
       {"model.intermediate_size=32"}},
      {{},
       {"model.vocab_size=11"},
       {"model.vocab_size=13"},
       {"model.vocab_size=17"},
       {"model.vocab_size=32"}},
      {{},
       {"model.tie_word_embeddings=true"},
       {"model.tie_word_embeddings=false"}},
      {{}, {"model.resid_pdrop=0.1"}},
      {{}, {"model.embd_pdrop=0.2"}},
      {{}, {"model.attn_pdrop=0.15"}},
      {{},
       {"model.rope_theta=100"},
       {"model.rope_scaling.type=llama3",
        "model.rope_scaling.original_max_position_embeddings=16"}},
      {{},
       {"data.sequence_length=1"},
       {"data.sequence_length=4"},
       {"data.sequence_length=7"},
       {"data.sequence_length=16"}},
      {{}, {"data.mask_document_ends=true"}},
      {{}, {"training.label_smoothing=0.1"}},
      {{}, {"training.z_loss=0.01"}},
      {{}, {"parallel.bucket_bytes=1"}, {"parallel.bucket_bytes=3000"}},
      {{},
       {"training.gradient_clipping=0.05"},
       {"training.gradient_clipping=0"}},
      {{},
       {"optimizer.name=sgd", "optimizer.lr=0.1"},
       {"optimizer.name=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9"}},
      {{}, {"optimizer.weight_decay=0"}},
      {{}, {"optimizer.min_lr=1e-3"}},
      {{}, {"optimizer.betas=[0.5, 0.5]"}},
      {{}, {"training.steps=1"}},
      {{},
       {"optimizer.schedule=constant"},
       {"optimizer.schedule=linear"},
       {"optimizer.schedule=wsd"}},
      {{}, {"training.seed=7"}},
      {{},
       {"memory.recompute=selective"},
       {"memory.recompute=full"},
       {"memory.recompute=every_k"}},
      {{}, activations_on_file()},
      {{}, {"model.initializer_range=0.3"}},
      {{}, {"memory.offload=nvme"}},
      {{},
       {"parallel.prefetch=0"},
       {"parallel.prefetch=3"},
       {"parallel.reshard_after_forward=false"}},
      precisions(),
      {{}, {}, {}, {"parallel.reduce_dtype=bf16"}},
  };
  return table;
}

std::vector<int> dimension_sizes() {
  std::vector<int> sizes = {static_cast<int>(all_degrees().size())};
  sizes.insert(
      sizes.end(), std::begin(kDependentSizes), std::end(kDependentSizes));
  for (const auto& choices : independent()) {
    sizes.push_back(static_cast<int>(choices.size()));
  }
  return sizes;
}

std::string set(const char* key, int64_t value) {
  return fmt::format("{}={}", key, value);
}

Overrides layout_overrides(const Draw& draw, const Degrees& degrees) {
  Overrides overrides = {set("parallel.tp", degrees.tp),
                         set("parallel.pp", degrees.pp),
                         set("parallel.dp", degrees.dp)};
  if (draw[kZeroGroup] == 1 && degrees.dp % 2 == 0) {
    overrides.push_back(set("parallel.zero_group", degrees.dp / 2));
  }
  const int layers = degrees.pp + draw[kLayers];
  overrides.push_back(set("model.num_hidden_layers", layers));
  std::vector<int> stages(degrees.pp, 1);
  switch (draw[kStages]) {
    case 0:
      break;
    case 1:
      overrides.push_back("parallel.weigh_embedding_and_head=true");
      break;
    default:
      (draw[kStages] == 2 ? stages.front() : stages.back()) += draw[kLayers];
      overrides.push_back(
          fmt::format("parallel.stages=[{}]", fmt::join(stages, ",")));
  }
  return overrides;
}

Overrides head_overrides(const Draw& draw, const Degrees& degrees) {
  const int heads = degrees.tp * (1 + draw[kHeads]);
  const int head_dim = std::array{4, 2, 6}[draw[kHeadDim]];
  Overrides overrides = {set("model.num_attention_heads", heads)};
  if (draw[kFamily] == 1) {
    return overrides + Overrides{"model.family=gpt2",
                                 set("model.hidden_size", heads * head_dim)};
  }
  overrides =
      overrides + Overrides{set("model.head_dim", head_dim),
                            set("model.hidden_size",
                                std::array{16, 12, 20, 33}[draw[kHidden]])};
  const int kv_heads =
      std::array{heads, 1, 2, heads % 2 == 0 ? heads / 2 : 1}[draw[kKvHeads]];
  return overrides + Overrides{set("model.num_key_value_heads", kv_heads)};
}

Overrides batch_overrides(const Draw& draw, const Degrees& degrees) {
  const int microbatch_size = 1 + draw[kMicrobatch];
  const int accumulation = 1 + draw[kAccumulation];
  return {set("training.microbatch_size", microbatch_size),
          set("training.global_batch_size",
              int64_t{microbatch_size} * accumulation * degrees.dp)};
}

Overrides pattern_overrides(const Draw& draw) {
  const bool is_gpt2 = draw[kFamily] == 1;
  const std::array frozen =
      is_gpt2
          ? std::array{"", "*wte.weight", "transformer.h.0.*", "*ln_*"}
          : std::array{
                "", "model.embed_tokens.*", "model.layers.0.*", "*norm.weight"};
  Overrides overrides;
  if (draw[kFreeze] > 0) {
    overrides.push_back(
        fmt::format("optimizer.freeze=[\"{}\"]", frozen[draw[kFreeze]]));
  }
  if (draw[kGroup] == 1) {
    overrides.push_back(fmt::format(
        "optimizer.group=[{{pattern=\"{}\", lr=5e-3, weight_decay=0.5}}]",
        is_gpt2 ? "*mlp*" : "*self_attn*"));
  }
  return overrides;
}

/// Sequence parallelism needs a length that tp divides.
Overrides sequence_overrides(const Draw& draw, const Degrees& degrees) {
  if (draw[kSequence] == 0) {
    return {};
  }
  return {
      "parallel.sequence_parallel=true",
      set("data.sequence_length", int64_t{degrees.tp} * (1 + draw[kSequence]))};
}

bool contains(const Overrides& overrides, const std::string& override) {
  return std::find(overrides.begin(), overrides.end(), override) !=
         overrides.end();
}

/// All that the ZeRO stage lets lie on file, beside activations where these
/// were drawn too.
Overrides offload_overrides(const Overrides& others, const Degrees& degrees) {
  const Overrides activations = activations_on_file();
  const bool has_activations = contains(others, activations[1]);
  const auto num_drawn =
      std::count(others.begin(), others.end(), activations[0]);
  if (num_drawn == (has_activations ? 1 : 0)) {
    return {};
  }
  std::string states = "\"optimizer\"";
  const bool has_shards =
      degrees.dp > 1 && !contains(others, "parallel.zero_group=1");
  if (contains(others, "parallel.zero=2") ||
      contains(others, "parallel.zero=3")) {
    states += ", \"gradients\"";
  }
  if (contains(others, "parallel.zero=3") && has_shards) {
    states += ", \"parameters\"";
  }
  if (has_activations) {
    states += ", \"activations\"";
  }
  return {"memory.offload_states=[" + states + "]"};
}

Overrides overrides_of(const Draw& draw) {
  const Degrees& degrees = all_degrees()[draw[kLayout]];
  Overrides overrides =
      layout_overrides(draw, degrees) + head_overrides(draw, degrees) +
      batch_overrides(draw, degrees) + pattern_overrides(draw);
  for (size_t i = 0; i < independent().size(); ++i) {
    overrides = overrides + independent()[i][draw[kNumDependent + i]];
  }
  return overrides + sequence_overrides(draw, degrees) +
         offload_overrides(overrides, degrees);
}

rc::Gen<Draw> draw_generator() {
  return rc::gen::exec([] {
    Draw draw;
    for (const int size : dimension_sizes()) {
      draw.push_back(*rc::gen::inRange(0, size));
    }
    return draw;
  });
}

struct Outcome {
  std::string refused_by;     // a rule's id
  std::string failure;        // why it is not equal
  bool says_nothing = false;  // lost in rounding, or overflowed
};

std::string first_rule(const LoadedConfig& loaded) {
  for (const Problem& problem : check_run(loaded)) {
    if (problem.severity == Severity::kError) {
      return problem.rule.empty() ? "no rule" : problem.rule;
    }
  }
  return "";
}

Outcome try_draw(const Draw& draw) {
  const Overrides overrides = overrides_of(draw);
  const LoadedConfig loaded = load_tiny_run(overrides);
  Outcome outcome;
  outcome.refused_by = first_rule(loaded);
  if (!outcome.refused_by.empty()) {
    return outcome;
  }
  try {
    const VerifyReport report = verify_layout(loaded.config);
    outcome.says_nothing =
        report.is_lost_in_rounding() || report.has_overflowed;
    if (report.is_different() ||
        (!report.is_equal() && !outcome.says_nothing)) {
      outcome.failure = to_text(report);
    }
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  return outcome;
}

/// Walks to the simplest draw that still fails.
Draw shrink(rc::Shrinkable<Draw> shrinkable) {
  int num_tried = 0;
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    auto shrinks = shrinkable.shrinks();
    for (auto next = shrinks.next(); next && num_tried < kMaxShrinks;
         next = shrinks.next()) {
      ++num_tried;
      if (!try_draw(next->value()).failure.empty()) {
        shrinkable = *next;
        has_moved = true;
        break;
      }
    }
  }
  return shrinkable.value();
}

int num_draws() {
  const char* text = std::getenv("TRIAX_WALK_DRAWS");
  return text == nullptr ? 120 : std::atoi(text);
}

uint64_t new_seed() {
  const char* text = std::getenv("TRIAX_WALK_SEED");
  return text == nullptr || *text == 0 ? std::random_device{}()
                                       : std::strtoull(text, nullptr, 0);
}

double space_size() {
  double product = 1;
  for (const int size : dimension_sizes()) {
    product *= size;
  }
  return product;
}

class Walk : public testing::Test {
 protected:
  /// The draws of one seed, which is printed.
  void walk(uint64_t seed, int count) {
    const rc::Gen<Draw> generator = draw_generator();
    rc::Random random(seed);
    std::map<std::string, int> refusals;
    int num_refused = 0;
    int num_silent = 0;
    for (int i = 0; i < count; ++i) {
      const auto shrinkable = generator(random.split(), rc::kNominalSize);
      const Outcome outcome = try_draw(shrinkable.value());
      if (!outcome.refused_by.empty()) {
        ++refusals[outcome.refused_by];
        ++num_refused;
      }
      num_silent += outcome.says_nothing;
      if (!outcome.failure.empty()) {
        report(shrinkable, outcome);
      }
    }
    EXPECT_FALSE(refusals.contains("no rule"));
    EXPECT_LT(num_refused, 0.2 * count + 1);
    EXPECT_LT(num_silent, 0.05 * count + 1);
    std::cout << "walk: " << count << " draws of "
              << fmt::format("{:.2e}", space_size())
              << " combinations, TRIAX_WALK_SEED=" << seed << "; refused "
              << testing::PrintToString(refusals)
              << ", lost in rounding or overflowed " << num_silent << "\n";
  }

  static void report(const rc::Shrinkable<Draw>& shrinkable,
                     const Outcome& outcome) {
    const Overrides overrides = overrides_of(shrinkable.value());
    ADD_FAILURE() << outcome.failure
                  << "\nrepeat: " << verify_command(overrides, kTwoSteps)
                  << "\nsimplest: "
                  << verify_command(overrides_of(shrink(shrinkable)),
                                    kTwoSteps);
  }
};

TEST_F(Walk, TheSameDrawsEqualOneRank) {
  walk(kFixedSeed, num_draws() / 2);
}

TEST_F(Walk, NewDrawsEqualOneRank) {
  walk(new_seed(), num_draws() - num_draws() / 2);
}

TEST_F(Walk, TheSpaceIsLarge) {
  EXPECT_GE(space_size(), 1e6);
  // Every choice of every dimension is read; two heads, so that all fit.
  Draw simplest(dimension_sizes().size());
  simplest[kHeads] = 1;
  for (size_t i = 0; i < simplest.size(); ++i) {
    for (int choice = 0; choice < dimension_sizes()[i]; ++choice) {
      Draw draw = simplest;
      draw[i] = choice;
      EXPECT_EQ(first_rule(load_tiny_run(overrides_of(draw))), "")
          << testing::PrintToString(overrides_of(draw));
    }
  }
}

TEST_F(Walk, FewDrawsAreRefused) {
  const rc::Gen<Draw> generator = draw_generator();
  rc::Random random(kFixedSeed);
  int num_refused = 0;
  constexpr int kCount = 400;
  for (int i = 0; i < kCount; ++i) {
    const Draw draw = generator(random.split(), rc::kNominalSize).value();
    num_refused += !first_rule(load_tiny_run(overrides_of(draw))).empty();
  }
  EXPECT_GT(num_refused, 0);
  EXPECT_LT(num_refused, 0.1 * kCount);
}

TEST_F(Walk, TheCommittedTokensAreTheCorpus) {
  const WrittenSet set = write_set(tiny_documents(), /*code=*/1);
  const std::string prefix = TRIAX_SOURCE_DIR "/tests/parity/walk";
  EXPECT_EQ(read_file(prefix + ".bin", 1 << 20), set.bin);
  EXPECT_EQ(read_file(prefix + ".idx", 1 << 20), set.idx);
}

/// Runs a printed command as it is, in the repository's root or its like.
int run_command(const std::string& command) {
  const ScratchFolder folder;
  const std::string root = TRIAX_SOURCE_DIR;
  const std::string script =
      "mkdir '" + folder.file("tests") + "' && cd '" + folder.file("") +
      "' && ln -s '" + root + "/tests/parity' tests/parity && ln -s '" +
      TRIAX_BUILD_DIR + "' build && " + command + " >out 2>err";
  return WEXITSTATUS(std::system(script.c_str()));
}

TEST_F(Walk, ThePrintedCommandRepeatsADraw) {
  rc::Random random(3);
  Draw draw = draw_generator()(random, rc::kNominalSize).value();
  draw[kLayout] = 6;  // two ranks or more
  draw[kFreeze] = 1;
  draw[kGroup] = 1;
  draw[kMicrobatch] = 0;
  draw[kAccumulation] = 2;
  const Overrides overrides = overrides_of(draw);
  EXPECT_EQ(first_rule(load_tiny_run(overrides)), "");
  EXPECT_EQ(run_command(verify_command(overrides, kTwoSteps)), 0);
  const VerifyOptions broken = {.num_steps = 2,
                                .broken = Break::kDropMicrobatch};
  EXPECT_EQ(run_command(verify_command(overrides, broken)), 1);
}

}  // namespace
}  // namespace triax
