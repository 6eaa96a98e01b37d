// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/config/value.h"

namespace triax {

/// A config's member that a field sets.
template <class T>
using MemberOf = T* (*)(RunConfig&);

/// An enumeration: Field::choices[i] names the enumerator of value i.
struct EnumMember {
  int (*get)(const RunConfig&);
  void (*set)(RunConfig&, int);
};

/// A field with a shape of its own.
struct SpecialMember {
  std::string_view type;  // for people
  /// Sets the members; returns what is wrong, or an empty string.
  std::string (*read)(const ConfigValue&, RunConfig&);
  /// The TOML value; empty: nothing to write.
  std::string (*print)(const RunConfig&);
};

/// std::monostate: nothing reads the field.
using Member = std::variant<std::monostate,
                            MemberOf<bool>,
                            MemberOf<int>,
                            MemberOf<int64_t>,
                            MemberOf<double>,
                            MemberOf<std::string>,
                            MemberOf<std::vector<int64_t>>,
                            MemberOf<std::vector<double>>,
                            MemberOf<std::vector<std::string>>,
                            EnumMember,
                            SpecialMember>;

enum class Unit { kNone, kSeconds, kBytes, kBytesPerSecond };

/// Numbers, and the numbers of a list, lie in [min, max].
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_min_excluded = false;
  bool is_max_excluded = false;
};

/// The most sequences of one step, set or derived.
inline constexpr int64_t kMaxBatchSize = int64_t{1} << 32;

/// One key of a run file. Default: the member's value in RunConfig{}.
struct Field {
  std::string_view key;  // "parallel.tp"; "profile.*": every key below
  Member member = {};
  std::string_view help;  // one sentence without a full stop
  Bounds bounds = {};
  std::vector<std::string_view> choices =
      {};  // of texts, lists of them, enumerations
  std::vector<std::string_view> later = {};  // choices not built yet
  Unit unit = Unit::kNone;
  int list_length = 0;  // of a list of numbers; 0: any
  /// Left out (the member then holds its 0, empty or false): what stands in.
  std::string_view derived = "";
  /// Whole numbers above it are not built yet.
  int64_t max_built = std::numeric_limits<int64_t>::max();
  /// Nothing but the default is built.
  bool is_default_only = false;
  /// The rule that refuses a field without a member; `help` says why.
  std::string_view refused_by = "not-built";

  std::string_view section() const;  // "parallel"; of "a.b.c" it is "a.b"
  std::string_view name() const;     // "tp"
  bool is_read() const;              // has a member
};

/// The table, in the order of the docs; fields of a section stand together.
/// The parser, the help, docs/config.md, the printer and check read it.
const std::vector<Field>& fields();

/// The field of a key, also by a "section.*" row; nullptr if there is none.
const Field* find_field(std::string_view key);

/// Its type, for people: "whole number ≥ 1", "llama | gpt2", "duration".
std::string type_text(const Field& field);

/// Its value in `config` as TOML; empty when there is nothing to write (a
/// derived field that holds its 0, a link without emulation).
std::string print_value(const Field& field, const RunConfig& config);

/// The choice that an enumeration's field holds in `config`: "bf16" of
/// "training.precision".
std::string chosen(std::string_view key, const RunConfig& config);

/// What holds when it is left out, for people.
std::string default_text(const Field& field);

}  // namespace triax
