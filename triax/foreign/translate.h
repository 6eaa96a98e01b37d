// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/translate_source.h"

namespace triax {

struct Translation {
  /// The config in the other system's own form: JSON, arguments one a line,
  /// TOML, YAML.
  std::string text;
  /// What the other system has no key for, or what was not carried as it
  /// stands: one clause each, with the key it came from.
  std::vector<std::string> lost;
  /// Keys that need nothing written: the other system works so anyway, or it
  /// follows from what is written.
  std::vector<std::string> implied;
  /// What the other system must be told and the source does not say: one
  /// clause each, with the value that stands in for it, if one does.
  std::vector<std::string> open;
};

/// Writes the same run for another system, from what `source` says and what
/// follows from it by arithmetic; defaults that nobody wrote are written too
/// where the two systems' defaults may differ.
///
/// Every key of `source` that sets something is behind what is written or named
/// in `lost` or `implied`: what no fact has taken up is listed by its own name,
/// so a key that triax learns to read later cannot be dropped in silence.
///
/// `version`: "0.4" writes the layout of nanotron's package; empty, and of the
/// other systems whatever it says, the newest that triax knows.
Translation translate(const TranslationSource& source,
                      System to,
                      std::string_view version = {});

}  // namespace triax
