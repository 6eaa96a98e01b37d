// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_builtins.h"

#include <algorithm>
#include <string>

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_shell_words.h"

namespace triax {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && is_shell_name_start(text[0]) &&
         std::all_of(text.begin(), text.end(), is_shell_name_char);
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_shell_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_shell_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// What a formula goes on with, if that assigns: "=", "+=", "++".
std::string_view assignment_at(std::string_view text) {
  while (!text.empty() && is_shell_space(text.front())) {
    text.remove_prefix(1);
  }
  for (const std::string_view op : {"++", "--"}) {
    if (text.starts_with(op)) {
      return op;
    }
  }
  for (const std::string_view op :
       {"<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="}) {
    if (text.starts_with(op)) {
      return op;
    }
  }
  return text.starts_with('=') && !text.starts_with("==") ? "=" : "";
}

// The names that a formula sets, wherever they stand in it.
std::vector<std::string> assigned_names(std::string_view formula) {
  std::vector<std::string> names;
  size_t at = 0;
  while (at < formula.size()) {
    if (!is_shell_name_start(formula[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < formula.size() && is_shell_name_char(formula[at])) {
      ++at;
    }
    std::string_view before = formula.substr(0, begin);
    while (!before.empty() && is_shell_space(before.back())) {
      before.remove_suffix(1);
    }
    if (!assignment_at(formula.substr(at)).empty() || before.ends_with("++") ||
        before.ends_with("--")) {
      names.emplace_back(formula.substr(begin, at - begin));
    }
  }
  return names;
}

// The formula of what the one name becomes; empty: it is not as simple.
std::string new_value(std::string_view formula, const std::string& name) {
  formula = without_blanks(formula);
  if (formula == "++" + name || formula == "--" + name) {
    return name + (formula[0] == '+' ? " + 1" : " - 1");
  }
  if (!formula.starts_with(name)) {
    return "";
  }
  const std::string_view rest = without_blanks(formula.substr(name.size()));
  const std::string_view op = assignment_at(rest);
  const std::string value(without_blanks(rest.substr(op.size())));
  if (op == "++" || op == "--") {
    return value.empty() ? name + (op == "++" ? " + 1" : " - 1") : "";
  }
  if (op == "=") {
    return value;
  }
  return op.size() == 2 && op.find_first_of("&|^") == std::string_view::npos
             ? name + " " + op[0] + " (" + value + ")"
             : "";
}

}  // namespace

bool may_hold_settings(const ShellField& file) {
  static const std::string_view kOthers[] = {"activate",
                                             "bashrc",
                                             ".bashrc",
                                             "profile",
                                             ".profile",
                                             ".bash_profile",
                                             "conda.sh",
                                             "modules.sh",
                                             "setvars.sh",
                                             "set_env.sh",
                                             "bash"};
  const std::string path = file.text();
  const size_t slash = path.rfind('/');
  const std::string name =
      slash == std::string::npos ? path : path.substr(slash + 1);
  return std::find(std::begin(kOthers), std::end(kOthers), name) ==
         std::end(kOthers);
}

bool ShellBuiltins::run(const std::vector<ShellField>& fields) {
  const std::string name = fields[0].text();
  if (name == "unset") {
    for (const ShellField& field : fields) {
      state_.set(field.text(), std::nullopt);
    }
  } else if (name == "source" || name == ".") {
    state_.reads_others = state_.reads_others || fields.size() < 2 ||
                          may_hold_settings(fields[1]);
  } else if (name == "let") {
    for (size_t i = 1; i < fields.size(); ++i) {
      assign_formula(fields[i].text(), fields[i].offset());
    }
  } else if (name == "read" || name == "mapfile" || name == "readarray" ||
             name == "getopts") {
    read_names(fields, 1);
  } else if (name == "printf" && fields.size() > 2 &&
             fields[1].text() == "-v") {
    set_unknown(fields[2].text(), fields[2].offset());
  } else if (name == "shift") {
    shift(fields);
  } else if (name == "set") {
    set_arguments(fields);
  } else if (name == "eval" && fields.size() == 2 && !fields[1].is_known() &&
             fields[1].text().starts_with("$(")) {
    state_.reads_others = true;
  } else {
    return false;
  }
  return true;
}

void ShellBuiltins::set_unknown(const std::string& name, size_t offset) {
  if (is_name(name)) {
    state_.set(name,
               ShellValue{false, {{{unknown_piece("$" + name, offset)}}}});
  }
}

// Options, their values too, are no names of variables that matter.
void ShellBuiltins::read_names(const std::vector<ShellField>& fields,
                               size_t begin) {
  for (size_t i = begin; i < fields.size(); ++i) {
    set_unknown(fields[i].text(), fields[i].offset());
  }
}

void ShellBuiltins::shift(const std::vector<ShellField>& fields) {
  if (state_.calls.empty()) {
    return;
  }
  std::vector<ShellField>& arguments = state_.calls.back();
  const std::optional<int64_t> count =
      fields.size() > 1 ? whole_number(fields[1].text()) : 1;
  const size_t most = arguments.size();
  const size_t gone =
      count && *count >= 0 ? std::min(most, static_cast<size_t>(*count)) : most;
  arguments.erase(arguments.begin(),
                  arguments.begin() + static_cast<std::ptrdiff_t>(gone));
}

// set -e and its kin have no arguments; set -- A B gives the script new ones.
void ShellBuiltins::set_arguments(const std::vector<ShellField>& fields) {
  const auto dashes =
      std::find_if(fields.begin(), fields.end(), [](const ShellField& field) {
        return field.text() == "--";
      });
  if (dashes == fields.end()) {
    return;
  }
  if (state_.calls.empty()) {
    state_.calls.emplace_back();
  }
  state_.calls.back().assign(dashes + 1, fields.end());
}

void ShellBuiltins::assign_formula(std::string_view formula, size_t offset) {
  if (!state_.spend(8 * formula.size(), offset)) {
    return;
  }
  const std::vector<std::string> names = assigned_names(formula);
  std::optional<int64_t> value;
  if (names.size() == 1) {
    const std::string rest = new_value(formula, names[0]);
    value = rest.empty() ? std::nullopt : expansion_.arithmetic(rest);
  }
  if (value) {
    state_.set(names[0],
               ShellValue{false, {{{{std::to_string(*value), offset}}}}});
    return;
  }
  for (const std::string& name : names) {
    set_unknown(name, offset);
  }
}

}  // namespace triax
