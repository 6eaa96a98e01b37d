// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "triax/base/file.h"
#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"

namespace triax {

inline std::string case_text(const std::filesystem::path& path) {
  return read_file(path.string(), 1 << 20);
}

/// What follows `mark` on its line; empty: it is not there.
inline std::string after_mark(const std::string& text,
                              const std::string& mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos
             ? ""
             : text.substr(at + mark.size(),
                           text.find('\n', at) - at - mark.size());
}

/// A report's problems, one a line.
inline std::string all_text(const ForeignReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) {
    text += to_text(problem) + "\n";
  }
  return text;
}

/// The same, and what was not judged.
inline std::string text_with_unjudged(const ForeignReport& report) {
  std::string text = all_text(report);
  for (const std::string& clause : report.unjudged) {
    text += "not judged: " + clause + "\n";
  }
  return text;
}

/// In each file of a folder a line "# finds = RULE…" names the rules that
/// speak, and "# notes = RULE…", if there is one, some that only note.
/// Returns the number of files.
inline int expect_named_findings(
    const std::filesystem::path& folder,
    const std::string& extension,
    const std::function<ForeignReport(const std::string& text,
                                      const std::string& file)>& check) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != extension) {
      continue;
    }
    const std::string text = case_text(entry.path());
    const ForeignReport report = check(text, entry.path().filename().string());
    const auto named = [&](const std::string& mark) {
      std::istringstream words(after_mark(text, mark));
      return std::set<std::string>{std::istream_iterator<std::string>(words),
                                   {}};
    };
    std::set<std::string> found;
    std::set<std::string> notes;
    for (const Problem& problem : report.problems) {
      (problem.severity == Severity::kNote ? notes : found)
          .insert(problem.rule);
    }
    EXPECT_EQ(found, named("# finds =")) << entry.path() << "\n"
                                         << all_text(report);
    for (const std::string& note : named("# notes =")) {
      EXPECT_TRUE(notes.contains(note)) << entry.path() << " " << note << "\n"
                                        << all_text(report);
    }
    ++count;
  }
  return count;
}

}  // namespace triax
