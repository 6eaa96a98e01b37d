// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace triax {

/// What other systems call something that a run file has under another name.
struct KeyAlias {
  /// Names with a blank between them; '_', '-' and case do not count. One with
  /// a dot ("model.type") stands for itself in that section alone.
  std::string_view names;
  /// The keys that do it, with a blank between them; empty: none does.
  std::string_view keys;
  /// What to do where a key alone does not say it.
  std::string_view advice = "";
};

/// The whole table. No name in it stands twice, none is a field's own.
std::span<const KeyAlias> key_aliases();

/// The way out for the key `name` of `section`, "did you mean parallel.zero?";
/// empty when the name is nobody's.
std::string alias_fix(std::string_view section, std::string_view name);

}  // namespace triax
