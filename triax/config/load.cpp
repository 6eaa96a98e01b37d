// SPDX-License-Identifier: Apache-2.0
#include "triax/config/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/config/assign.h"
#include "triax/config/fields.h"
#include "triax/config/hf_config.h"
#include "triax/config/key_aliases.h"
#include "triax/config/nearest.h"
#include "triax/config/parse_toml.h"

namespace triax {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
// After so many problems no nearest key is looked for.
constexpr size_t kMaxSearches = 100;

// A key with a value, before it is known whether there is such a key.
struct Assignment {
  std::string key;
  Position key_position;
  ConfigValue value;
};

bool is_section(std::string_view key) {
  const std::string prefix = std::string(key) + ".";
  for (const Field& field : fields()) {
    if (field.key.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> names;
  for (const Field& field : fields()) {
    names.push_back(field.key.substr(0, field.key.find('.')));
  }
  return names;
}

// Tables that are sections are opened; other tables are values.
void flatten(const ConfigTable& table,
             const std::string& prefix,
             std::vector<Assignment>& assignments) {
  for (const ConfigEntry& entry : table) {
    // A quoted key with a dot is no path: "parallel.tp" = 2 is not tp.
    const bool has_dot = entry.key.find('.') != std::string::npos;
    const std::string key =
        prefix + (has_dot ? in_quotes(entry.key) : entry.key);
    const auto* inner = std::get_if<ConfigTable>(&entry.value.data);
    if (inner != nullptr && is_section(key)) {
      flatten(*inner, key + ".", assignments);
    } else {
      assignments.push_back({key, entry.key_position, entry.value});
    }
  }
}

// Where a key with this name stands, if it stands in another section.
std::string elsewhere(std::string_view name) {
  for (const Field& field : fields()) {
    if (field.name() == name) {
      return fmt::format("{} belongs in [{}]", field.name(), field.section());
    }
  }
  return "";
}

// The key in the same section first, then in any other.
std::string nearest_key(std::string_view section, std::string_view name) {
  std::vector<std::string_view> siblings;
  std::vector<std::string_view> others;
  for (const Field& field : fields()) {
    if (!field.name().ends_with('*')) {
      (field.section() == section ? siblings : others).push_back(field.name());
    }
  }
  const std::string sibling = nearest(name, siblings);
  if (!sibling.empty()) {
    return fmt::format("{}.{}", section, sibling);
  }
  const std::string other = nearest(name, others);
  for (const Field& field : fields()) {
    if (!other.empty() && field.name() == other) {
      return std::string(field.key);
    }
  }
  return "";
}

Complaint unknown_section(const std::string& section) {
  const std::string known = alias_fix("", section);
  if (!known.empty()) {
    return {"unknown-key", "no such section", known};
  }
  const std::string near = nearest(section, sections());
  return {"unknown-key",
          "no such section",
          near.empty() ? "`triax train --help` lists the keys"
                       : "did you mean [" + near + "]?"};
}

Complaint unknown_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  const std::string section =
      dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string name = key.substr(dot == std::string::npos ? 0 : dot + 1);
  const std::string known = alias_fix(section, name);
  if (!known.empty()) {
    return {"unknown-key", "no such key", known};
  }
  if (dot == std::string::npos || is_section(section)) {
    const std::string place = elsewhere(name);
    if (!place.empty()) {
      return {"unknown-key", "no such key here", place};
    }
    const std::string near = nearest_key(section, name);
    if (!near.empty()) {
      return {"unknown-key", "no such key", "did you mean " + near + "?"};
    }
    return {
        "unknown-key", "no such key", "`triax train --help` lists the keys"};
  }
  return unknown_section(section.substr(0, section.find('.')));
}

Complaint not_a_field(const Assignment& assignment) {
  const std::string& key = assignment.key;
  if (is_section(key)) {
    return {"wrong-type",
            kind_of(assignment.value) + " stands where a table belongs",
            "write [" + key + "]"};
  }
  const bool is_table =
      std::holds_alternative<ConfigTable>(assignment.value.data);
  return is_table && key.find('.') == std::string::npos ? unknown_section(key)
                                                        : unknown_key(key);
}

// The names that a section's key may be a slip of; for the key of a table at
// the top level those of the sections.
std::vector<std::string_view> names_beside(std::string_view section) {
  if (section.empty()) {
    return sections();
  }
  std::vector<std::string_view> names;
  for (const Field& field : fields()) {
    if (field.section() == section) {
      names.push_back(field.name());
    }
  }
  return names;
}

// A key, or a section's, under its right name: none is set, and each takes its
// value.
bool fits_as(const std::string& key,
             const ConfigValue& value,
             const LoadedConfig& loaded) {
  const auto* table = std::get_if<ConfigTable>(&value.data);
  if (table != nullptr && is_section(key)) {
    return std::all_of(
        table->begin(), table->end(), [&](const ConfigEntry& entry) {
          return fits_as(key + "." + entry.key, entry.value, loaded);
        });
  }
  const Field* field = find_field(key);
  RunConfig copy = loaded.config;
  return field != nullptr && !loaded.is_set(key) &&
         !assign(*field, value, copy);
}

// The one name that a misspelt key or section surely means, if the file can
// say that instead.
std::optional<SafeEdit> edit_for(const Assignment& assignment,
                                 const ConfigTable& table,
                                 const LoadedConfig& loaded) {
  const size_t dot = assignment.key.rfind('.');
  const bool is_top = dot == std::string::npos;
  const std::string section = is_top ? "" : assignment.key.substr(0, dot);
  const std::string name = assignment.key.substr(is_top ? 0 : dot + 1);
  const std::vector<std::string_view> names = names_beside(section);
  const std::string near = nearest(name, names);
  const bool is_table =
      std::holds_alternative<ConfigTable>(assignment.value.data);
  const bool is_twice =
      is_top && std::any_of(table.begin(), table.end(), [&](const auto& entry) {
        return entry.key == near;
      });
  if (near.empty() || near.ends_with('*') || is_top != is_table || is_twice ||
      assignment.key_position.line == 0 || !is_sure_slip(name, near, names) ||
      !fits_as(
          is_top ? near : section + "." + near, assignment.value, loaded)) {
    return std::nullopt;
  }
  return SafeEdit{assignment.key_position, name, near};
}

// After all is set, so that a key that stands further down counts.
void add_edits(const std::vector<Assignment>& assignments,
               const ConfigTable& table,
               LoadedConfig& loaded) {
  for (Problem& problem : loaded.problems) {
    if (problem.rule != "unknown-key" || problem.fix.empty()) {
      continue;
    }
    const auto source =
        std::find_if(assignments.begin(),
                     assignments.end(),
                     [&problem](const Assignment& assignment) {
                       return assignment.key == problem.field &&
                              assignment.key_position == problem.position;
                     });
    if (source != assignments.end()) {
      problem.edit = edit_for(*source, table, loaded);
    }
  }
}

// "profile.*" stands for the section itself, too.
const Field* field_of(const Assignment& assignment) {
  const Field* field = find_field(assignment.key);
  return field != nullptr ? field : find_field(assignment.key + ".");
}

void apply(const Assignment& assignment, LoadedConfig& loaded) {
  const Field* field = field_of(assignment);
  const Position& position =
      field == nullptr ? assignment.key_position : assignment.value.position;
  const std::optional<Complaint> complaint =
      field == nullptr ? (loaded.problems.size() < kMaxSearches
                              ? not_a_field(assignment)
                              : Complaint{"unknown-key", "no such key", ""})
                       : assign(*field, assignment.value, loaded.config);
  if (!complaint) {
    loaded.positions[assignment.key] = position;
    return;
  }
  loaded.problems.push_back({Severity::kError,
                             complaint->rule,
                             assignment.key.substr(0, 100),
                             position,
                             complaint->message,
                             complaint->fix});
}

// `text` may be unquoted where a text belongs: run.dir=2024.
ConfigValue bare_text(const Field* field,
                      const std::string& text,
                      ConfigValue value) {
  const bool wants_text =
      field != nullptr &&
      std::holds_alternative<MemberOf<std::string>>(field->member);
  if (wants_text &&
      value.data.index() != ConfigValue{std::string(), {}}.data.index()) {
    value.data = text;
  }
  return value;
}

void add_override(const std::string& override_text,
                  LoadedConfig& loaded,
                  std::vector<Assignment>& assignments) {
  const Position position{"command line", 0, 0};
  const size_t equals = override_text.find('=');
  const std::string key = override_text.substr(0, equals);
  const auto complain = [&](const std::string& message) {
    loaded.problems.push_back({Severity::kError,
                               "syntax",
                               "",
                               position,
                               in_quotes(override_text) + message,
                               "write section.key=value"});
  };
  if (equals == std::string::npos || key.find('.') == std::string::npos) {
    complain(" is no override");
    return;
  }
  const std::string text = override_text.substr(equals + 1);
  const std::optional<ConfigValue> value = parse_override(text);
  if (!value) {
    complain(": the value is not TOML");
    return;
  }
  const auto* table = std::get_if<ConfigTable>(&value->data);
  if (table != nullptr && is_section(key)) {
    flatten(*table, key + ".", assignments);
    return;
  }
  assignments.push_back(
      {key, position, bare_text(find_field(key), text, *value)});
}

void apply_hf(const Assignment& assignment, LoadedConfig& loaded) {
  apply(assignment, loaded);
  if (loaded.is_set("model.hf")) {
    apply_hf_config(loaded);
  }
}

// A key beside `hf` wins over config.json, which deserves a line.
void note_hf_overrides(const RunConfig& from_hf, LoadedConfig& loaded) {
  for (const Field& field : fields()) {
    const std::string key(field.key);
    const auto derived = loaded.derived.find(key);
    if (!loaded.is_set(key) || derived == loaded.derived.end()) {
      continue;
    }
    const std::string before = print_value(field, from_hf);
    const std::string after = print_value(field, loaded.config);
    if (before != after) {
      loaded.problems.push_back(
          {Severity::kNote,
           "hf-override",
           key,
           loaded.position_of(key),
           fmt::format(
               "{} stands over {} of {}", after, before, derived->second),
           ""});
    }
    loaded.derived.erase(derived);
  }
}

void apply_all(const std::vector<Assignment>& assignments,
               LoadedConfig& loaded) {
  const Assignment* hf = nullptr;
  for (const Assignment& assignment : assignments) {
    hf = assignment.key == "model.hf" ? &assignment : hf;
  }
  if (hf != nullptr) {
    apply_hf(*hf, loaded);
  }
  const RunConfig from_hf = loaded.config;
  for (const Assignment& assignment : assignments) {
    if (assignment.key != "model.hf") {
      apply(assignment, loaded);
    }
  }
  note_hf_overrides(from_hf, loaded);
}

}  // namespace

bool LoadedConfig::is_set(const std::string& key) const {
  return positions.contains(key);
}

Position LoadedConfig::position_of(const std::string& key) const {
  const auto found = positions.find(key);
  return found == positions.end() ? Position{file, 0, 0} : found->second;
}

void LoadedConfig::add_error(const std::string& rule,
                             const std::string& key,
                             const std::string& message,
                             const std::string& fix) {
  problems.push_back(
      {Severity::kError, rule, key, position_of(key), message, fix});
}

LoadedConfig parse_config(std::string_view text,
                          const std::string& file,
                          const std::vector<std::string>& overrides) {
  LoadedConfig loaded;
  loaded.file = file;
  ParsedToml parsed = parse_toml(text, file);
  if (parsed.problem) {
    loaded.problems.push_back(*parsed.problem);
    return loaded;
  }
  std::vector<Assignment> assignments;
  flatten(parsed.table, "", assignments);
  for (const std::string& override_text : overrides) {
    add_override(override_text, loaded, assignments);
  }
  apply_all(assignments, loaded);
  add_edits(assignments, parsed.table, loaded);
  sort_problems(loaded.problems);
  return loaded;
}

LoadedConfig load_config(const std::string& file,
                         const std::vector<std::string>& overrides) {
  try {
    return parse_config(read_file(file, kMaxFileBytes), file, overrides);
  } catch (const Error& error) {
    LoadedConfig loaded;
    loaded.file = file;
    loaded.problems.push_back({Severity::kError,
                               "unreadable",
                               "",
                               {file, 0, 0},
                               error.what(),
                               "give the path of a run file"});
    return loaded;
  }
}

RunConfig load_run(const std::string& file) {
  LoadedConfig loaded = load_config(file);
  for (const Problem& problem : loaded.problems) {
    if (problem.severity == Severity::kError) {
      throw Error(to_text(problem));
    }
  }
  resolve(loaded);
  return loaded.config;
}

}  // namespace triax
