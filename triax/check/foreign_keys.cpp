// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/check/foreign_findings.h"
#include "triax/config/nearest.h"
#include "triax/config/problem.h"

namespace triax {
namespace {

// Suggestions compare with every key of a section: not for a file of junk.
constexpr int kMaxSuggestions = 200;

bool is_table(const ConfigValue& value) {
  return std::holds_alternative<ConfigTable>(value.data);
}

bool is_null(const ConfigValue& value) {
  const auto* foreign = std::get_if<ForeignValue>(&value.data);
  return foreign != nullptr && foreign->kind == "null";
}

std::string_view type_name(KeyType type) {
  switch (type) {
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kWhole:
      return "a whole number";
    case KeyType::kNumber:
      return "a number";
    case KeyType::kText:
      return "a text";
    case KeyType::kList:
      return "a list";
    case KeyType::kTable:
    case KeyType::kOpenTable:
      return "a table";
    case KeyType::kFlagOrTable:
      return "a table (or true or false)";
    case KeyType::kAny:
      return "anything";
  }
  return "?";
}

bool has_type(KeyType type, const ConfigValue& value) {
  switch (type) {
    case KeyType::kAny:
      return true;
    case KeyType::kFlag:
      return std::holds_alternative<bool>(value.data);
    case KeyType::kWhole:
      return std::holds_alternative<int64_t>(value.data);
    case KeyType::kNumber:
      return std::holds_alternative<int64_t>(value.data) ||
             std::holds_alternative<double>(value.data);
    case KeyType::kText:
      return std::holds_alternative<std::string>(value.data);
    case KeyType::kList:
      return std::holds_alternative<ConfigArray>(value.data);
    case KeyType::kTable:
    case KeyType::kOpenTable:
      return is_table(value);
    case KeyType::kFlagOrTable:
      return is_table(value) || std::holds_alternative<bool>(value.data);
  }
  return false;
}

// A name that people give to a remark in a file without comments.
bool is_remark(std::string_view key) {
  return key.starts_with('_') || key.starts_with('#') || key.starts_with('/') ||
         key == "comment" || key == "comments" || key == "note" ||
         key == "description";
}

// "micro_batch_size_per_gpu": the end of one name alone.
std::string longer_name(const std::string& key,
                        const std::vector<std::string_view>& names) {
  constexpr size_t kMinBytes = 12;
  std::string found;
  for (const std::string_view name : names) {
    if (key.size() >= kMinBytes && name.ends_with("_" + key) &&
        !are_opposites(key, name)) {
      if (!found.empty()) {
        return "";
      }
      found = std::string(name);
    }
  }
  return found;
}

// What people call a key by another system's or program's word.
struct OtherName {
  System system;
  std::string_view path;
  std::string_view meant;  // in the same section
};

constexpr OtherName kOtherNames[] = {
    {System::kDeepSpeed, "gradient_clip", "gradient_clipping"},
    {System::kDeepSpeed, "grad_clip", "gradient_clipping"},
    {System::kDeepSpeed, "clip_grad", "gradient_clipping"},
    {System::kDeepSpeed, "max_grad_norm", "gradient_clipping"},
    {System::kDeepSpeed,
     "train_micro_batch_size",
     "train_micro_batch_size_per_gpu"},
    {System::kNanotron, "optimizer.grad_clip", "clip_grad"},
    {System::kNanotron, "optimizer.gradient_clipping", "clip_grad"},
    {System::kNanotron, "optimizer.max_grad_norm", "clip_grad"},
    {System::kTorchTitan, "training.global_batch", "global_batch_size"},
    {System::kTorchTitan, "training.local_batch", "local_batch_size"},
    {System::kTorchTitan, "training.max_grad_norm", "max_norm"},
    {System::kTorchTitan, "training.gradient_clipping", "max_norm"},
};

// Empty: it is nobody's.
std::string other_name(System system, std::string_view path) {
  for (const OtherName& other : kOtherNames) {
    if (other.system == system && other.path == path) {
      return std::string(other.meant);
    }
  }
  return "";
}

class KeyWalk {
 public:
  KeyWalk(ForeignFindings& findings,
          const KeyTable& keys,
          const KeyRules& rules)
      : findings_(findings), keys_(keys), rules_(rules) {}

  // `section`: the row of the table; nullptr at the top.
  void walk(const ConfigTable& table,
            const std::string& prefix,
            const KeyRow* section) {
    for (const ConfigEntry& entry : table) {
      const std::string path =
          prefix.empty() ? entry.key : prefix + "." + entry.key;
      const bool is_dotted = entry.key.find('.') != std::string::npos;
      const KeyRow* row = is_dotted ? nullptr : keys_.find(path);
      const std::string& version = findings_.context.version;
      if (row != nullptr && is_too_new(*row, version)) {
        too_new(entry, path, *row, section);
      } else if (row != nullptr && is_still_there(*row, version)) {
        continue;
      } else if (row != nullptr) {
        look_at(entry, path, *row);
      } else if (section == nullptr || section->type != KeyType::kOpenTable) {
        unknown(entry, path, prefix, section);
      }
    }
  }

  // One note of all that is another program's.
  void say_fork() const {
    constexpr size_t kMostNames = 5;
    if (of_fork_.empty()) {
      return;
    }
    const auto end = of_fork_.begin() + static_cast<std::ptrdiff_t>(std::min(
                                            of_fork_.size(), kMostNames));
    findings_.not_judged(fmt::format(
        "{}{}: {} of {}",
        fmt::join(of_fork_.begin(), end, ", "),
        of_fork_.size() > kMostNames
            ? fmt::format(" and {} more", of_fork_.size() - kMostNames)
            : std::string(),
        of_fork_.size() == 1 ? "a key" : "keys",
        rules_.fork));
  }

 private:
  bool ignores(const KeyRow* section) const {
    return section == nullptr ? rules_.unknown == KeyUse::kIgnored
                              : section->ignores_unknown;
  }

  void too_new(const ConfigEntry& entry,
               const std::string& path,
               const KeyRow& row,
               const KeyRow* section) {
    Problem problem{ignores(section) ? Severity::kWarning : Severity::kError,
                    "unknown-key",
                    path,
                    entry.key_position};
    problem.message = fmt::format("{} does not have it yet (since {})",
                                  findings_.context.version,
                                  row.since);
    problem.fix = "remove it, or take a newer version";
    problem.effect = ignores(section) ? Effect::kIgnored : Effect::kRefused;
    findings_.add(std::move(problem));
  }

  void look_at(const ConfigEntry& entry,
               const std::string& path,
               const KeyRow& row) {
    if (row.use == KeyUse::kRefused) {
      refused(entry, path, row);
      return;
    }
    if (row.use == KeyUse::kIgnored) {
      ignored(entry, path, row);
      return;
    }
    if (row.is_deprecated) {
      deprecated(entry, path, row);
    }
    const std::string misfit = misfit_of(row, entry.value);
    if (!misfit.empty()) {
      wrong_value(entry, path, row, misfit);
    } else {
      go_below(entry, path, row);
    }
  }

  void go_below(const ConfigEntry& entry,
                const std::string& path,
                const KeyRow& row) {
    if (const auto* below = std::get_if<ConfigTable>(&entry.value.data)) {
      const bool is_section = row.type == KeyType::kTable ||
                              row.type == KeyType::kFlagOrTable ||
                              row.type == KeyType::kOpenTable;
      if (is_section) {
        walk(*below, path, &row);
      }
    } else if (const auto* items =
                   std::get_if<ConfigArray>(&entry.value.data)) {
      walk_items(*items, path, row);
    }
  }

  // A list of tables, where the system's table has rows below "path.*".
  void walk_items(const ConfigArray& items,
                  const std::string& path,
                  const KeyRow& row) {
    if (!keys_.is_section(path + ".*")) {
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (const auto* below = std::get_if<ConfigTable>(&items[i].data)) {
        walk(*below, fmt::format("{}.{}", path, i), &row);
      }
    }
  }

  std::string misfit_of(const KeyRow& row, const ConfigValue& value) const {
    return rules_.misfit != nullptr ? rules_.misfit(row, value)
                                    : misfit_text(row, value);
  }

  void refused(const ConfigEntry& entry,
               const std::string& path,
               const KeyRow& row) {
    Problem problem{Severity::kError, "removed-key", path, entry.key_position};
    problem.message = std::string(row.why);
    if (!row.removed.empty()) {
      problem.message += fmt::format(" (gone since {})", row.removed);
    }
    problem.fix = row.replacement.empty()
                      ? std::string("remove it")
                      : fmt::format("use {}", row.replacement);
    problem.effect = Effect::kRefused;
    if (row.why == "renamed") {
      add_rename(problem, entry, row);
    }
    findings_.add(std::move(problem));
  }

  void ignored(const ConfigEntry& entry,
               const std::string& path,
               const KeyRow& row) {
    Problem problem{
        Severity::kWarning, "ignored-key", path, entry.key_position};
    problem.message = fmt::format("it does nothing: {}", row.why);
    problem.fix = row.replacement.empty()
                      ? std::string("remove it")
                      : fmt::format("use {}", row.replacement);
    problem.effect = Effect::kIgnored;
    add_rename(problem, entry, row);
    findings_.add(std::move(problem));
  }

  void deprecated(const ConfigEntry& entry,
                  const std::string& path,
                  const KeyRow& row) {
    Problem problem{
        Severity::kNote, "deprecated-key", path, entry.key_position};
    problem.message = "the old name still works";
    problem.fix = fmt::format("use {}", row.replacement);
    if (keys_.find(row.replacement) != nullptr &&
        keys_.find(row.replacement)->type == row.type) {
      add_rename(problem, entry, row);
    }
    findings_.add(std::move(problem));
  }

  // Where only the name changed and the section stays, the key can be renamed.
  static void add_rename(Problem& problem,
                         const ConfigEntry& entry,
                         const KeyRow& row) {
    const size_t old_dot = row.key.rfind('.');
    const size_t new_dot = row.replacement.rfind('.');
    const auto section = [](std::string_view key, size_t dot) {
      return dot == std::string_view::npos ? "" : key.substr(0, dot);
    };
    if (!row.replacement.empty() &&
        section(row.key, old_dot) == section(row.replacement, new_dot)) {
      problem.edit =
          SafeEdit{entry.key_position,
                   entry.key,
                   std::string(row.replacement.substr(
                       new_dot == std::string_view::npos ? 0 : new_dot + 1))};
    }
  }

  void wrong_value(const ConfigEntry& entry,
                   const std::string& path,
                   const KeyRow& row,
                   const std::string& misfit) {
    const bool is_choice =
        !row.choices.empty() &&
        std::holds_alternative<std::string>(entry.value.data);
    const bool is_bound = has_type(row.type, entry.value) && !is_choice;
    const auto* real = std::get_if<double>(&entry.value.data);
    const bool is_nan = real != nullptr && std::isnan(*real);
    Problem problem{
        row.is_unchecked && !is_nan ? Severity::kWarning : Severity::kError,
        is_choice  ? "unknown-value"
        : is_bound ? "out-of-range"
                   : "wrong-type",
        path,
        entry.value.position};
    problem.message = misfit;
    if (!row.default_value.empty() && row.default_value != "null") {
      problem.fix = fmt::format("its default is {}", row.default_value);
    }
    problem.effect = row.is_unchecked ? Effect::kFailsLater : Effect::kRefused;
    findings_.add(std::move(problem));
  }

  void unknown(const ConfigEntry& entry,
               const std::string& path,
               const std::string& prefix,
               const KeyRow* section) {
    const bool is_ignored = ignores(section);
    if (is_ignored && is_remark(entry.key)) {
      return;
    }
    if (!rules_.fork.empty()) {
      of_fork_.push_back(path);
      return;
    }
    Problem problem{is_ignored ? Severity::kWarning : Severity::kError,
                    "unknown-key",
                    path,
                    entry.key_position};
    problem.effect = is_ignored ? Effect::kIgnored : Effect::kRefused;
    problem.message = is_ignored ? "no such key is read, so it does nothing"
                                 : "there is no such key";
    if (++num_unknown_ <= kMaxSuggestions) {
      // A section that takes anything has words of its own: "mode", "enabled".
      suggest(problem, entry, prefix, is_ignored && section != nullptr);
    }
    if (problem.fix.empty()) {
      problem.fix = "remove it";
    }
    findings_.add(std::move(problem));
  }

  void suggest(Problem& problem,
               const ConfigEntry& entry,
               const std::string& prefix,
               bool is_loose) const {
    const std::vector<std::string_view> places = keys_.places_of(entry.key);
    const std::vector<std::string_view> names = keys_.names_in(prefix);
    std::string near = nearest(entry.key, names);
    if (near.empty()) {
      near = longer_name(entry.key, names);
    }
    const std::string opposite = opposite_of(entry.key, names);
    const std::string meant =
        other_name(findings_.config.system,
                   prefix.empty() ? entry.key : prefix + "." + entry.key);
    if (!meant.empty()) {
      problem.severity = Severity::kError;
      problem.fix = fmt::format("did you mean {}?", meant);
    } else if (near.empty() && !opposite.empty()) {
      problem.severity = is_loose ? problem.severity : Severity::kError;
      problem.fix = fmt::format(
          "there is only {}, its opposite: write that, or nothing", opposite);
    } else if (!near.empty()) {
      problem.severity = is_loose ? problem.severity : Severity::kError;
      problem.fix = fmt::format("did you mean {}?", near);
      const std::string path = prefix.empty() ? near : prefix + "." + near;
      const KeyRow* row = keys_.find(path);
      if (row != nullptr && !findings_.is_set(path) &&
          is_sure_slip(entry.key, near, keys_.names_in(prefix)) &&
          misfit_of(*row, entry.value).empty()) {
        problem.edit = SafeEdit{entry.key_position, entry.key, near};
      }
    } else if (!places.empty() && places.size() <= 2 && !is_loose) {
      problem.severity = Severity::kError;
      problem.rule = "misplaced-key";
      const size_t dot = places[0].rfind('.');
      problem.fix =
          dot == std::string_view::npos
              ? "it belongs at the top level"
              : fmt::format("it belongs in {}", places[0].substr(0, dot));
    }
  }

  ForeignFindings& findings_;
  const KeyTable& keys_;
  const KeyRules& rules_;
  std::vector<std::string> of_fork_;
  int num_unknown_ = 0;
};

std::string bound_text(const KeyRow& row) {
  if (std::isinf(row.max)) {
    return fmt::format("at least {}", row.min);
  }
  return std::isinf(row.min) ? fmt::format("at most {}", row.max)
                             : fmt::format("{} to {}", row.min, row.max);
}

}  // namespace

std::string misfit_text(const KeyRow& row, const ConfigValue& value) {
  if (is_null(value)) {
    return row.takes_null || row.type == KeyType::kAny
               ? ""
               : fmt::format("null, and it takes {}", type_name(row.type));
  }
  if (!has_type(row.type, value)) {
    return fmt::format("{} is {}, and it takes {}",
                       value_text(value),
                       kind_of(value),
                       type_name(row.type));
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    const std::vector<std::string_view> choices = split_words(row.choices);
    const bool is_choice =
        std::find(choices.begin(), choices.end(), *text) != choices.end();
    return choices.empty() || is_choice ? ""
                                        : fmt::format("{} is none of {}",
                                                      in_quotes(*text),
                                                      fmt::join(choices, ", "));
  }
  return bound_misfit(row, value);
}

std::string bound_misfit(const KeyRow& row, const ConfigValue& value) {
  const auto* whole = std::get_if<int64_t>(&value.data);
  const auto* real = std::get_if<double>(&value.data);
  if (whole == nullptr && real == nullptr) {
    return "";
  }
  const double number = whole ? static_cast<double>(*whole) : *real;
  if (std::isnan(number)) {
    return "nan is no number";
  }
  return number >= row.min && number <= row.max
             ? ""
             : fmt::format("{} must be {}", value_text(value), bound_text(row));
}

void check_keys(ForeignFindings& findings,
                const KeyTable& keys,
                const KeyRules& rules) {
  KeyWalk walk(findings, keys, rules);
  walk.walk(findings.config.table, "", nullptr);
  walk.say_fork();
}

}  // namespace triax
