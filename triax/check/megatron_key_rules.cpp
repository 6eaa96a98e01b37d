// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/megatron_rules.h"
#include "triax/config/nearest.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

constexpr int kMaxUnknown = 200;

class KeyJudge {
 public:
  KeyJudge(ForeignFindings& findings, const MegatronArguments& args)
      : findings_(findings), args_(args) {
    for (const ConfigEntry& entry : findings.config.table) {
      if (const auto* row = find_megatron_fork_row(entry.key)) {
        fork_ = std::max(fork_, row->fork);
      }
    }
    if (args.is_deepspeed()) {
      fork_ = MegatronFork::kDeepSpeed;
    }
  }

  void judge() {
    for (const ConfigEntry& entry : findings_.config.table) {
      if (entry.key == "launch" || entry.key == "environment") {
        continue;
      }
      const KeyRow* row = megatron_keys().find(entry.key);
      if (row != nullptr) {
        look_at(entry, *row);
      } else if (const auto* fork = find_megatron_fork_row(entry.key)) {
        of_fork(entry, *fork);
      } else if (++num_unknown_ <= kMaxUnknown) {
        unknown(entry);
      }
    }
    flush_slips();
    flush_unknown();
  }

 private:
  Problem& add(Severity severity,
               const std::string& rule,
               const ConfigEntry& entry,
               const Position& position,
               const std::string& message,
               const std::string& fix,
               Effect effect) {
    return findings_.add(
        {severity, rule, entry.key, position, message, fix, effect, {}});
  }

  void look_at(const ConfigEntry& entry, const KeyRow& row) {
    if (row.use == KeyUse::kRefused) {
      if (!args_.is_deepspeed() && is_certain(entry)) {
        refused(entry, row);
      }
      return;
    }
    if (row.use == KeyUse::kIgnored && args_.is_deepspeed()) {
      return;  // it branched off where the key still did something
    }
    if (row.use == KeyUse::kIgnored) {
      const bool is_other = changes_the_run(row.key);
      add(is_other && !is_of_fork() ? Severity::kWarning : Severity::kNote,
          "ignored-key",
          entry,
          entry.key_position,
          fmt::format("Megatron-LM core_v0.19.2 does nothing with it: {}",
                      row.why),
          row.replacement.empty() ? std::string("remove it")
                                  : fmt::format("use --{}", row.replacement),
          is_other ? Effect::kSilentlyDifferent : Effect::kIgnored);
      return;
    }
    if (row.is_deprecated && !args_.is_deepspeed()) {
      add(Severity::kNote,
          "deprecated-key",
          entry,
          entry.key_position,
          "the old name still works",
          fmt::format("use {}{}",
                      row.replacement.starts_with("nothing") ? "" : "--",
                      row.replacement),
          Effect::kNone);
    }
    check_value(entry, row);
  }

  // Of the arguments that nothing reads any more, those that said what is
  // computed; the others said how.
  static bool changes_the_run(std::string_view key) {
    return key == "rampup-batch-size" ||
           key == "apply-residual-connection-post-layernorm";
  }

  static bool is_certain(const ConfigEntry& entry) {
    return !std::holds_alternative<ForeignValue>(entry.value.data) ||
           std::get<ForeignValue>(entry.value.data).kind.find("condition") ==
               std::string::npos;
  }

  // Beside arguments of an older version or a fork it is right there, as they.
  void refused(const ConfigEntry& entry, const KeyRow& row) {
    Problem& problem = add(is_of_fork() ? Severity::kNote : Severity::kError,
                           "removed-key",
                           entry,
                           entry.key_position,
                           std::string(row.why),
                           fmt::format("use --{}", row.replacement),
                           Effect::kRefused);
    if (row.type == KeyType::kWhole && row.key != "warmup") {
      problem.edit = SafeEdit{entry.key_position,
                              "--" + std::string(row.key),
                              "--" + std::string(row.replacement),
                              false};
    }
  }

  void check_value(const ConfigEntry& entry, const KeyRow& row) {
    if (const auto* items = std::get_if<ConfigArray>(&entry.value.data)) {
      const MegatronRow* parsed = find_megatron_row(row.key);
      KeyRow item_row = row;
      item_row.type = parsed->item;
      for (const ConfigValue& item : *items) {
        check_single(entry, item_row, item);
      }
      return;
    }
    check_single(entry, row, entry.value);
  }

  void check_single(const ConfigEntry& entry,
                    const KeyRow& row,
                    const ConfigValue& value) {
    if (std::holds_alternative<ForeignValue>(value.data)) {
      return;
    }
    const bool is_choice = !row.choices.empty();
    std::string misfit = misfit_text(row, value);
    bool is_bound = misfit == bound_misfit(row, value);
    if (misfit.empty() && is_choice && row.type != KeyType::kText) {
      const std::vector<std::string_view> choices = split_words(row.choices);
      if (std::find(choices.begin(), choices.end(), value_text(value)) ==
          choices.end()) {
        misfit = fmt::format(
            "{} is none of {}", value_text(value), fmt::join(choices, ", "));
      }
    }
    if (misfit.empty()) {
      return;
    }
    const MegatronFork fork =
        is_choice ? fork_of(row.key, value) : MegatronFork::kNone;
    if (fork != MegatronFork::kNone && !is_version_meant()) {
      of_fork(entry, value, fork);
      return;
    }
    const std::string rule =
        is_choice && std::holds_alternative<std::string>(value.data)
            ? "unknown-value"
        : is_bound ? "out-of-range"
                   : "wrong-type";
    add(Severity::kError,
        is_choice && rule == "out-of-range" ? "unknown-value" : rule,
        entry,
        value.position,
        misfit,
        fix_of(row, value),
        Effect::kRefused);
  }

  // A value that says itself whose it is, else that of the other arguments.
  MegatronFork fork_of(std::string_view key, const ConfigValue& value) const {
    const auto* text = std::get_if<std::string>(&value.data);
    const MegatronFork own = text == nullptr
                                 ? MegatronFork::kNone
                                 : fork_of_megatron_value(key, *text);
    return own != MegatronFork::kNone ? own : fork_;
  }

  void of_fork(const ConfigEntry& entry,
               const ConfigValue& value,
               MegatronFork fork) {
    add(Severity::kNote,
        "not-judged",
        entry,
        value.position,
        fmt::format("{} is not judged: core_v0.19.2 has no such value, and {} "
                    "may",
                    value_text(value),
                    megatron_fork_name(fork)),
        "see the list in that program's arguments",
        Effect::kNone);
  }

  static std::string fix_of(const KeyRow& row, const ConfigValue& value) {
    const auto* text = std::get_if<std::string>(&value.data);
    if (text != nullptr && !row.choices.empty()) {
      const std::string near = nearest(*text, split_words(row.choices));
      if (!near.empty()) {
        return fmt::format("did you mean {}?", near);
      }
    }
    if (text != nullptr && row.type == KeyType::kWhole) {
      return "write the whole number in digits";
    }
    return row.default_value.empty()
               ? std::string()
               : fmt::format("its default is {}", row.default_value);
  }

  // A script for an older version or a fork is right there; a note says that
  // this version stops.
  void of_fork(const ConfigEntry& entry, const MegatronForkRow& row) {
    if (args_.is_deepspeed()) {
      return;
    }
    add(is_version_meant() ? Severity::kError : Severity::kNote,
        "removed-key",
        entry,
        entry.key_position,
        fmt::format("it is an argument of {}, and core_v0.19.2 alone stops at "
                    "it",
                    megatron_fork_name(row.fork)),
        row.replacement.empty() ? std::string("remove it")
                                : fmt::format("use --{}", row.replacement),
        Effect::kRefused);
  }

  void unknown(const ConfigEntry& entry) {
    std::string dashed = entry.key;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const KeyRow* meant =
        dashed == entry.key ? nullptr : megatron_keys().find(dashed);
    std::string near = meant != nullptr ? dashed : near_key(entry.key);
    const bool is_negated = !opposite(dashed).empty();
    if (near.empty() || findings_.is_set(near) || is_negated ||
        (is_longer(entry.key, near) && !takes(entry, near))) {
      strangers_.push_back(&entry);
    } else {
      slips_.push_back({&entry, near});
    }
  }

  // "--load-optim", of which there is "--no-load-optim".
  static std::string opposite(const std::string& key) {
    return opposite_of(key, megatron_keys().names_in(""));
  }

  static bool is_longer(const std::string& key, const std::string& near) {
    return near.size() > key.size() && near.starts_with(key + "-");
  }

  static bool takes(const ConfigEntry& entry, const std::string& near) {
    const KeyRow& row = *megatron_keys().find(near);
    const bool is_open = std::holds_alternative<ForeignValue>(entry.value.data);
    return is_open ? row.type != KeyType::kFlag
                   : misfit_text(row, entry.value).empty();
  }

  // Other programs on this base have names of their own that only resemble.
  void flush_slips() {
    const bool is_own = is_for_megatron();
    const bool is_other = !is_own || is_of_fork() || args_.is_deepspeed() ||
                          strangers_.size() > 1;
    for (const Slip& slip : slips_) {
      const std::string& key = slip.entry->key;
      const bool is_whole = slip.near.starts_with(key) && is_own;
      if (is_other && !is_whole && edit_distance(key, slip.near) > 1) {
        strangers_.push_back(slip.entry);
      } else {
        add_slip(*slip.entry, slip.near);
      }
    }
  }

  void add_slip(const ConfigEntry& entry, const std::string& near) {
    Problem& problem = add(
        Severity::kError,
        "unknown-key",
        entry,
        entry.key_position,
        fork_ != MegatronFork::kNone
            ? "Megatron-LM has no such argument, and its parser stops at it"
            : "there is no such argument, and the parser stops at it (it takes "
              "no abbreviations)",
        fmt::format("did you mean --{}?", near),
        Effect::kRefused);
    if (takes(entry, near)) {
      problem.edit =
          SafeEdit{entry.key_position, "--" + entry.key, "--" + near, false};
    }
  }

  // The way out for a name that has only its opposite.
  static std::string opposite_fix(const std::string& key,
                                  const std::string& opposite) {
    return negates(opposite, key)
               ? fmt::format(
                     "leave it out: there is only --{}, which turns it "
                     "off",
                     opposite)
               : fmt::format(
                     "leave it out: there is only --{}, which turns it "
                     "on",
                     opposite);
  }

  static std::string near_key(const std::string& key) {
    static const std::vector<std::string_view> names =
        megatron_keys().names_in("");
    const std::string near = nearest(key, names);
    const std::string whole = near.empty() ? unabbreviated(key) : near;
    return near.empty() || edit_distance(key, near) <= 2 ? whole : "";
  }

  // "--tensor-model-parallel": the parser was built without abbreviations.
  static std::string unabbreviated(const std::string& key) {
    std::string found;
    for (const std::string_view name : megatron_keys().names_in("")) {
      if (key.size() >= 10 && name.starts_with(key)) {
        if (!found.empty()) {
          return "";
        }
        found = std::string(name);
      }
    }
    return found;
  }

  // "--load-optim": what only "--no-load-optim" turns off.
  static bool has_only_negation(const ConfigEntry* entry) {
    const std::string contrary = opposite(entry->key);
    return !contrary.empty() && negates(contrary, entry->key);
  }

  // One stranger in an own program is likely a slip; several are a fork's.
  void flush_unknown() {
    const auto num_negated =
        std::count_if(strangers_.begin(), strangers_.end(), has_only_negation);
    const int64_t num_others =
        static_cast<int64_t>(strangers_.size()) - num_negated;
    const bool is_alone = args_.script().empty() || num_others <= 1;
    const bool is_own = !is_of_fork() && is_for_megatron() &&
                        (is_alone || findings_.context.is_version_given);
    for (const ConfigEntry* entry : strangers_) {
      const std::string contrary = opposite(entry->key);
      add(!is_own ? Severity::kNote
          : has_only_negation(entry) || findings_.context.is_version_given
              ? Severity::kError
              : Severity::kWarning,
          "unknown-key",
          *entry,
          entry->key_position,
          "Megatron-LM has no such argument, and its parser stops at it unless "
          "the program adds it",
          contrary.empty() ? "remove it, or see whether this program adds it"
                           : opposite_fix(entry->key, contrary),
          Effect::kRefused);
    }
  }

  // Who names the version means Megatron-LM itself.
  bool is_of_fork() const {
    return fork_ != MegatronFork::kNone && !is_version_meant();
  }

  bool is_version_meant() const {
    return findings_.context.is_version_given && !args_.is_deepspeed();
  }

  // A program of its own, or arguments alone, which name no other.
  bool is_for_megatron() const {
    return args_.script().empty() || is_own_megatron_program(args_.script());
  }

  struct Slip {
    const ConfigEntry* entry;
    std::string near;
  };

  ForeignFindings& findings_;
  const MegatronArguments& args_;
  std::vector<const ConfigEntry*> strangers_;
  std::vector<Slip> slips_;
  MegatronFork fork_ = MegatronFork::kNone;
  int num_unknown_ = 0;
};

}  // namespace

void check_megatron_keys(ForeignFindings& findings,
                         const MegatronArguments& args) {
  KeyJudge(findings, args).judge();
}

}  // namespace triax
