// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace triax {

/// What a system does with a key.
enum class KeyUse {
  kUsed,
  kIgnored,  // read by nobody; KeyRow::why says it
  kRefused,  // the system stops; KeyRow::why says it
};

enum class KeyType {
  kAny,
  kFlag,    // true or false
  kWhole,   // a whole number
  kNumber,  // a number
  kText,
  kList,
  kTable,       // opens a section; its keys have rows of their own
  kOpenTable,   // a table whose keys the system does not look at
  kFlagOrTable  // DeepSpeed's sections that a bare true once stood for
};

/// One key of a system's config. Write it with designated initializers: what
/// is left out is the common case.
struct KeyRow {
  /// The whole path: "zero_optimization.stage", "tensor-model-parallel-size",
  /// "parallelism.tensor_parallel_degree". A "*" part stands for any name or
  /// any item of a list.
  std::string_view key;
  KeyType type = KeyType::kAny;
  /// As the system's config would write it; empty: it must be given, or it
  /// follows from others.
  std::string_view default_value = {};
  /// Bounds that the system itself enforces.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  /// "none | cpu | nvme": the values that the system accepts; empty: any.
  std::string_view choices = {};
  KeyUse use = KeyUse::kUsed;
  /// One clause: why it is ignored or refused.
  std::string_view why = {};
  /// Versions of the system that brought and that dropped the key:
  /// "0.16.9", or "0.15.4..0.16.9" where it is only known to lie between.
  std::string_view since = {};
  std::string_view removed = {};
  /// What took its place.
  std::string_view replacement = {};
  /// Other legal names of its last part: "prefetch_bucket_size", joined by
  /// '|'.
  std::string_view aliases = {};
  bool is_deprecated = false;  // works still; see `replacement`
  bool takes_null = false;
  /// Of a table: keys in it that the system does not know are passed over.
  bool ignores_unknown = false;
  /// The system takes any value as it reads the config; what is not of the
  /// row's type or choices fails or misleads later.
  bool is_unchecked = false;
  /// Megatron's: the flag takes no value ("--swiglu").
  bool is_switch = false;
};

/// The keys of one version of a system, found by path. The rows stay where
/// they are, in static storage.
class KeyTable {
 public:
  /// `version`: what the list was taken from, "0.19.8" or a commit.
  KeyTable(std::string_view version, std::span<const KeyRow> rows);

  std::string_view version() const { return version_; }
  std::span<const KeyRow> rows() const { return rows_; }

  /// By its name, an alias or a "*" row; nullptr: the system knows no such
  /// key.
  const KeyRow* find(std::string_view path) const;

  /// Whether some row stands below "path.".
  bool is_section(std::string_view path) const;

  /// Names of the rows directly below `section` ("" for the top level) that
  /// are used or ignored, with their aliases: what a misspelt key may mean.
  std::vector<std::string_view> names_in(std::string_view section) const;

  /// Paths of the rows whose last part is `name`: where a misplaced key
  /// belongs.
  std::vector<std::string_view> places_of(std::string_view name) const;

 private:
  std::string_view version_;
  std::span<const KeyRow> rows_;
  std::unordered_map<std::string, const KeyRow*> by_path_;
  std::vector<const KeyRow*> patterns_;
};

/// Whether a version, "0.14.5", is one that does not have the row's key yet,
/// and one that still has it though it was removed later. False for an empty
/// version, the table's own, and where it is not known.
bool is_too_new(const KeyRow& row, std::string_view version);
bool is_still_there(const KeyRow& row, std::string_view version);

/// Three numbers of a version compared: below 0, 0 or above 0.
int compare_versions(std::string_view a, std::string_view b);

/// The words of KeyRow::choices or aliases.
std::vector<std::string_view> split_words(std::string_view words);

}  // namespace triax
