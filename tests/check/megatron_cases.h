// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace triax {

/// A script of tests/cases/megatron/cases.txt, and what triax says of it.
struct MegatronCase {
  std::string name;
  std::set<std::string> finds;     // "error RULE FIELD"
  std::set<std::string> notes;     // "RULE FIELD"
  std::set<std::string> unjudged;  // a part of what is said
  std::string script;
};

namespace detail {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// "--seq-length" of "    --seq-length 4096", "export X" of "export X=1".
inline std::string key_of_line(const std::string& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string text = line.substr(begin);
  const size_t from = text.starts_with("export ") ? 7 : 0;
  return text.substr(0, text.find_first_of(" =", from));
}

inline void change(std::vector<std::string>& lines, const std::string& line) {
  const bool removes = line.starts_with("without ");
  const std::string key = key_of_line(removes ? line.substr(8) : line);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (key_of_line(lines[i]) == key) {
      if (removes) {
        lines.erase(lines.begin() + static_cast<long>(i));
      } else {
        lines[i] = line;
      }
      return;
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == "CHANGED_ARGS=(") {
      while (lines[i] != ")") {
        ++i;
      }
      lines.insert(lines.begin() + static_cast<long>(i), line);
      return;
    }
  }
}

inline bool take_mark(const std::string& line,
                      const std::string& mark,
                      std::set<std::string>& marked) {
  if (!line.starts_with(mark)) {
    return false;
  }
  marked.insert(line.substr(mark.size()));
  return true;
}

}  // namespace detail

/// The cases of cases.txt, whose head says how they are written; as
/// tests/foreign/megatron_verdicts.py reads them.
inline std::vector<MegatronCase> read_megatron_cases(const std::string& base,
                                                     const std::string& text) {
  std::vector<MegatronCase> cases;
  std::vector<std::string> script;
  const auto finish = [&] {
    for (const std::string& line : script) {
      cases.back().script += line + "\n";
    }
  };
  for (const std::string& line : detail::lines_of(text)) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    if (line[0] == '[') {
      if (!cases.empty()) {
        finish();
      }
      cases.push_back({line.substr(1, line.size() - 2), {}, {}, {}, ""});
      script = detail::lines_of(base);
    } else if (!detail::take_mark(line, "finds: ", cases.back().finds) &&
               !detail::take_mark(line, "notes: ", cases.back().notes) &&
               !detail::take_mark(line, "unjudged: ", cases.back().unjudged)) {
      detail::change(script, line);
    }
  }
  if (!cases.empty()) {
    finish();
  }
  return cases;
}

}  // namespace triax
