// SPDX-License-Identifier: Apache-2.0
#include "triax/config/print_config.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "triax/config/fields.h"
#include "triax/config/toml_text.h"

namespace triax {
namespace {

// Any text that TOML can hold: no byte but UTF-8, no NUL.
rc::Gen<std::string> text_generator() {
  static const std::vector<std::string> pieces = {
      "a", "Z", "0", " ", "\"", "'", "\\", "\n", "\t", "\x01", "\x7f", "#",
      "=", "[", "]", "é", "日", "𝄞", "*",  "?",  ".",  "\r",   "\b"};
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces)),
      [](const std::vector<std::string>& chosen) {
        std::string text = "x";
        for (const std::string& piece : chosen) {
          text += piece;
        }
        return text;
      });
}

double real_within(const Bounds& bounds) {
  const double low = std::isfinite(bounds.min) ? bounds.min : 0.0;
  const double high = std::min(bounds.max, low + 1e6);
  const double share = *rc::gen::inRange<int64_t>(1, (1LL << 53) - 1) * 0x1p-53;
  return low + share * (high - low);
}

int64_t whole_within(const Field& field) {
  const auto max = static_cast<int64_t>(field.bounds.max);
  return *rc::gen::inRange<int64_t>(static_cast<int64_t>(field.bounds.min),
                                    std::min(max, field.max_built) + 1);
}

struct Chooser {
  const Field& field;
  RunConfig& config;

  void operator()(std::monostate) {}
  void operator()(MemberOf<bool> member) {
    *member(config) = *rc::gen::arbitrary<bool>();
  }
  void operator()(MemberOf<int> member) {
    *member(config) = static_cast<int>(whole_within(field));
  }
  void operator()(MemberOf<int64_t> member) {
    *member(config) = whole_within(field);
  }
  void operator()(MemberOf<double> member) {
    *member(config) = real_within(field.bounds);
  }
  void operator()(MemberOf<std::string> member) {
    *member(config) = field.choices.empty()
                          ? *text_generator()
                          : std::string(*rc::gen::elementOf(field.choices));
  }
  void operator()(MemberOf<std::vector<int64_t>>) {}
  void operator()(MemberOf<std::vector<double>> member) {
    *member(config) = {real_within(field.bounds), real_within(field.bounds)};
  }
  void operator()(MemberOf<std::vector<std::string>> member) {
    const auto item = field.choices.empty()
                          ? text_generator()
                          : rc::gen::map(rc::gen::elementOf(field.choices),
                                         [](std::string_view text) {
                                           return std::string(text);
                                         });
    *member(config) = *rc::gen::container<std::vector<std::string>>(item);
  }
  void operator()(const EnumMember& member) {
    member.set(
        config,
        *rc::gen::inRange<int>(0, static_cast<int>(field.choices.size())));
  }
  void operator()(const SpecialMember&) {}
};

void choose_special(RunConfig& config) {
  if (*rc::gen::arbitrary<bool>()) {
    config.data.validation_path = *text_generator();
  } else {
    config.data.validation = real_within({.min = 0, .max = 0.99});
  }
  config.parallel.stages = *rc::gen::container<std::vector<int64_t>>(
      rc::gen::inRange<int64_t>(1, 100));
  const int num_groups = *rc::gen::inRange(0, 3);
  for (int i = 0; i < num_groups; ++i) {
    OptimizerGroup group{.pattern = *text_generator(),
                         .lr = real_within({.min = 0, .max = 1}),
                         .weight_decay = {}};
    if (*rc::gen::arbitrary<bool>()) {
      group.weight_decay = real_within({.min = 0, .max = 1});
    }
    config.optimizer.group.push_back(group);
  }
}

// A config in which a random half of the fields has a random valid value.
RunConfig random_config() {
  RunConfig config;
  for (const Field& field : fields()) {
    const bool is_chosen = *rc::gen::arbitrary<bool>();
    if (is_chosen && !field.is_default_only && field.key != "model.hf") {
      std::visit(Chooser{field, config}, field.member);
    }
  }
  choose_special(config);
  return config;
}

TEST(PrintConfig, LoadsToTheSameConfig) {
  EXPECT_TRUE(rc::check([] {
    LoadedConfig first;
    first.config = random_config();
    // What was chosen counts as set: nothing may be derived over it.
    first.positions["model.tie_word_embeddings"] = {};
    resolve(first);
    // check_run() refuses the others.
    RC_PRE(first.config.training.global_batch_size <= kMaxBatchSize);
    const std::string text = print_config(first.config);
    LoadedConfig second = parse_config(text, "printed.toml");
    for (const Problem& problem : second.problems) {
      RC_FAIL(to_text(problem));
    }
    resolve(second);
    RC_ASSERT(second.config == first.config);
    RC_ASSERT(print_config(second.config) == text);
  }));
}

TEST(PrintConfig, NumbersKeepEveryBit) {
  EXPECT_TRUE(rc::check([](double value) {
    RC_PRE(std::isfinite(value));
    const LoadedConfig loaded =
        parse_config("", "a", {"optimizer.lr=" + toml_text(std::abs(value))});
    RC_ASSERT(loaded.problems.empty());
    RC_ASSERT(loaded.config.optimizer.lr == std::abs(value));
  }));
}

}  // namespace
}  // namespace triax
