// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/config/value.h"

namespace triax {

/// kError stops a run; kWarning is likely a mistake; kNote is worth knowing.
enum class Severity { kError, kWarning, kNote };

/// What comes of it when nothing is done.
enum class Effect {
  kNone,        // the message says it
  kRefused,     // as the config is read
  kFailsLater,  // after the job has started
  kIgnored,
  kSilentlyDifferent,
  kSlow,
  kOutOfMemory,
};

/// A change that is safe to make: at `position` the file says `from`, in
/// quotes or not, and should say `to`. `removes`: the whole entry goes.
struct SafeEdit {
  Position position;
  std::string from;
  std::string to;
  bool removes = false;
};

/// One thing that is wrong with a config, and the way out.
struct Problem {
  Severity severity = Severity::kError;
  std::string rule;   // one of rules()
  std::string field;  // "parallel.tp"; empty: the file
  Position position;
  std::string message = {};  // one sentence, with the numbers
  std::string fix = {};      // what to write instead; may be empty
  Effect effect = Effect::kNone;
  std::optional<SafeEdit> edit = {};
};

/// `FILE:LINE:COLUMN: error[RULE]: FIELD: MESSAGE; FIX`, on one line whatever
/// bytes the parts hold.
std::string to_text(const Problem& problem);

/// One JSON array of objects with the members of Problem, position flattened.
std::string to_json(const std::vector<Problem>& problems);

std::string_view severity_name(Severity severity);

/// "refused", "ignored", "silently different", …; empty for kNone.
std::string_view effect_name(Effect effect);

bool has_errors(const std::vector<Problem>& problems);

/// By file in the order given, then line and column; stable.
void sort_problems(std::vector<Problem>& problems);

/// The text in double quotes, cut after 60 bytes: for messages.
std::string in_quotes(std::string_view text);

}  // namespace triax
