// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "triax/foreign/key_table.h"

namespace triax {

/// One argument of Megatron-LM's parser.
struct MegatronRow {
  KeyRow row;
  /// Of a list: what its items are.
  KeyType item = KeyType::kText;
  /// How many values it takes, as argparse writes it: "1", "3", "+", "*";
  /// empty: a switch.
  std::string_view count = {};
};

/// How the lists of arguments are written, one line each.
namespace megatron_row {

constexpr MegatronRow toggle(std::string_view key,
                             std::string_view aliases = {}) {
  return {{.key = key,
           .type = KeyType::kFlag,
           .aliases = aliases,
           .is_switch = true},
          KeyType::kFlag,
          {}};
}

constexpr MegatronRow single(KeyType type,
                             std::string_view key,
                             std::string_view default_value,
                             std::string_view choices,
                             std::string_view aliases) {
  return {{.key = key,
           .type = type,
           .default_value = default_value,
           .choices = choices,
           .aliases = aliases},
          type,
          "1"};
}

constexpr MegatronRow list(KeyType item,
                           std::string_view key,
                           std::string_view count,
                           std::string_view default_value,
                           std::string_view choices) {
  return {{.key = key,
           .type = KeyType::kList,
           .default_value = default_value,
           .choices = choices},
          item,
          count};
}

constexpr MegatronRow whole(std::string_view key,
                            std::string_view default_value = {},
                            std::string_view choices = {},
                            std::string_view aliases = {}) {
  return single(KeyType::kWhole, key, default_value, choices, aliases);
}

constexpr MegatronRow number(std::string_view key,
                             std::string_view default_value = {},
                             std::string_view choices = {},
                             std::string_view aliases = {}) {
  return single(KeyType::kNumber, key, default_value, choices, aliases);
}

constexpr MegatronRow text(std::string_view key,
                           std::string_view default_value = {},
                           std::string_view choices = {},
                           std::string_view aliases = {}) {
  return single(KeyType::kText, key, default_value, choices, aliases);
}

constexpr MegatronRow wholes(std::string_view key,
                             std::string_view count,
                             std::string_view default_value = {},
                             std::string_view choices = {}) {
  return list(KeyType::kWhole, key, count, default_value, choices);
}

constexpr MegatronRow numbers(std::string_view key,
                              std::string_view count,
                              std::string_view default_value = {},
                              std::string_view choices = {}) {
  return list(KeyType::kNumber, key, count, default_value, choices);
}

constexpr MegatronRow texts(std::string_view key,
                            std::string_view count,
                            std::string_view default_value = {},
                            std::string_view choices = {}) {
  return list(KeyType::kText, key, count, default_value, choices);
}

}  // namespace megatron_row

/// The arguments of the parser itself, from megatron_keys.tsv's source.
std::span<const MegatronRow> megatron_parser_rows();

/// Whose arguments and values the parser does not know: the later one says
/// more of a script that has several.
enum class MegatronFork { kNone, kOlder, kOther, kDeepSpeed };

/// "Megatron-DeepSpeed", "an older Megatron-LM", in a sentence.
std::string_view megatron_fork_name(MegatronFork fork);

struct MegatronForkRow {
  std::string_view key;
  MegatronFork fork = MegatronFork::kOlder;
  /// How many values it takes; empty: a switch.
  std::string_view count = {};
  std::string_view replacement = {};
};

std::span<const MegatronForkRow> megatron_fork_rows();
/// nullptr: not among them.
const MegatronForkRow* find_megatron_fork_row(std::string_view key);

/// Whose value it is, of an argument that the parser gives other choices;
/// kNone: nobody's that is known here.
MegatronFork fork_of_megatron_value(std::string_view key,
                                    std::string_view value);

/// The parser's row by its name or an alias; nullptr: the parser refuses it.
const MegatronRow* find_megatron_row(std::string_view key);

}  // namespace triax
