// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "triax/foreign/system.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

// What a run is without anybody saying so.
bool is_neutral(const NamedFact& fact) {
  static const std::map<std::string, Json> neutral = {
      {"tp", 1},
      {"pp", 1},
      {"cp", 1},
      {"ep", 1},
      {"expert_tp", 1},
      {"chunks", 1},
      {"zero_stage", 0},
      {"sequence_parallel", false},
      {"offload_optimizer", "none"},
      {"offload_parameters", "none"},
      {"recompute", "none"},
      {"overlap_reduce", false},
      {"overlap_gather", false},
      {"loss_scale", 0.0},
      {"reduce_dtype", "fp32"},
      {"hidden_dropout", 0.0},
      {"resid_dropout", 0.0},
      {"embd_dropout", 0.0},
      {"attention_dropout", 0.0},
      {"qk_norm", false},
      {"rope_is_usual", true},
      {"min_lr", 0.0},
      {"warmup_steps", 0},
      {"momentum", 0.0},
  };
  const auto found = neutral.find(fact.name);
  return found != neutral.end() && found->second == fact.value;
}

bool is_adams(const std::string& name) {
  return name == "beta1" || name == "beta2" || name == "adam_eps" ||
         name == "decoupled_decay";
}

// A default that nobody wrote and that does nothing in this run.
bool is_idle_default(const NamedFact& fact, const TargetWriter& writer) {
  return fact.is_default &&
         ((is_adams(fact.name) && !is_adam(writer.word("optimizer", "adam"))) ||
          (fact.name == "min_lr" &&
           plain_schedule(writer.word("lr_schedule")) == "constant"));
}

class Accounts {
 public:
  Accounts(const TranslationSource& source, const TargetWriter& writer)
      : source_(source), writer_(writer) {
    for (const SourceKey& key : source.keys) {
      keys_[key.path] = &key;
    }
  }

  std::vector<std::string> lost() {
    for (const NamedFact& fact : source_.facts) {
      judge(fact);
    }
    std::vector<std::string> usual;
    for (const SourceKey& key : source_.keys) {
      if (settled_.contains(key.path) || key.is_off) {
        continue;
      }
      if (key.is_default) {
        usual.push_back(key.path);
      } else {
        lost_.push_back(
            fmt::format("{} {}: {}",
                        key.path,
                        key.text,
                        why_not_carried(key, source_.system, writer_.to())));
      }
    }
    if (!usual.empty()) {
      lost_.push_back(fmt::format("what is {}'s default anyway: {}",
                                  system_name(source_.system),
                                  fmt::join(usual, ", ")));
    }
    return std::move(lost_);
  }

  std::vector<std::string> implied() { return std::move(implied_); }

 private:
  void judge(const NamedFact& fact) {
    const auto loss = writer_.losses().find(fact.name);
    if (loss == writer_.losses().end()) {
      if (!writer_.is_written(fact.name)) {
        note_implied(fact);
      }
      settle(fact);
      return;
    }
    if (!writer_.is_carried(fact.name) &&
        ((is_neutral(fact) && is_unsaid(fact)) ||
         is_idle_default(fact, writer_))) {
      settle(fact);
      return;
    }
    settle(fact);
    lost_.push_back(fmt::format("{} {}{}: {}",
                                fact.name,
                                dump_json(fact.value),
                                origin(fact),
                                loss->second));
  }

  void note_implied(const NamedFact& fact) {
    for (const std::string& path : fact.keys) {
      if (keys_.contains(path) &&
          std::ranges::find(implied_, path) == implied_.end()) {
        implied_.push_back(path);
      }
    }
  }

  void settle(const NamedFact& fact) {
    settled_.insert(fact.keys.begin(), fact.keys.end());
  }

  // Nobody wrote more than what the system takes anyway.
  bool is_unsaid(const NamedFact& fact) const {
    return std::ranges::all_of(fact.keys, [this](const std::string& path) {
      const auto found = keys_.find(path);
      return found == keys_.end() || found->second->is_default ||
             found->second->is_off;
    });
  }

  // "(from zero_optimization.stage)": the keys that stand there.
  std::string origin(const NamedFact& fact) const {
    std::vector<std::string> said;
    for (const std::string& path : fact.keys) {
      if (keys_.contains(path) && std::ranges::find(said, path) == said.end()) {
        said.push_back(path);
      }
    }
    if (!said.empty()) {
      return fmt::format(" (from {})", fmt::join(said, ", "));
    }
    return fact.is_default
               ? fmt::format(" ({}'s default)", system_name(source_.system))
               : "";
  }

  const TranslationSource& source_;
  const TargetWriter& writer_;
  std::map<std::string, const SourceKey*> keys_;
  std::set<std::string> settled_;
  std::vector<std::string> lost_;
  std::vector<std::string> implied_;
};

}  // namespace

Translation translate(const TranslationSource& source,
                      System to,
                      std::string_view version) {
  TargetWriter writer(source, to, version);
  writer.write_all();
  Accounts accounts(source, writer);
  std::vector<std::string> lost = accounts.lost();
  return {writer.text(), std::move(lost), accounts.implied(), writer.open()};
}

}  // namespace triax
