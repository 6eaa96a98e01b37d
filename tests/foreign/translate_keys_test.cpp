// SPDX-License-Identifier: Apache-2.0
// No key of any system is dropped in silence: set to something else than its
// default, it changes what is written or is named as not carried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/check/megatron_cases.h"
#include "triax/base/file.h"
#include "triax/config/fields.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate.h"

namespace triax {
namespace {

constexpr System kAll[] = {System::kTriax,
                           System::kDeepSpeed,
                           System::kMegatron,
                           System::kTorchTitan,
                           System::kNanotron};

std::vector<ConfigValue> other_values(const KeyRow& row) {
  ConfigValue value{};
  // A text that is no mode is none of the two.
  if (row.key == "parallelism.tp_mode") {
    return {{std::string("REDUCE_SCATTER"), {}}};
  }
  if (!row.choices.empty() && row.type == KeyType::kText) {
    std::vector<ConfigValue> values;
    for (const std::string_view choice : split_words(row.choices)) {
      if (choice != row.default_value) {
        values.push_back({std::string(choice), {}});
      }
    }
    return values;
  }
  switch (row.type) {
    case KeyType::kFlag:
    case KeyType::kFlagOrTable:
      value.data = row.default_value != "true";
      break;
    case KeyType::kWhole:
      value.data = int64_t{row.default_value == "3" ? 5 : 3};
      break;
    case KeyType::kNumber:
      value.data = 0.375;
      break;
    case KeyType::kText:
    case KeyType::kAny:
      value.data = std::string("zz");
      break;
    case KeyType::kList:
      value.data = ConfigArray{{std::string("zz"), {}}};
      break;
    case KeyType::kTable:
    case KeyType::kOpenTable:
      value.data = ConfigTable{{"zz", {}, {int64_t{1}, {}}}};
      break;
  }
  return {value};
}

// Sets a path of tables, "a.b.c".
void set_value(ConfigTable& table, std::string path, const ConfigValue& value) {
  const size_t dot = path.find('.');
  const std::string name = path.substr(0, dot);
  auto found = std::ranges::find(table, name, &ConfigEntry::key);
  if (found == table.end()) {
    table.push_back({name, {}, {ConfigTable{}, {}}});
    found = table.end() - 1;
  }
  if (dot == std::string::npos) {
    found->value = value;
    return;
  }
  if (!std::holds_alternative<ConfigTable>(found->value.data)) {
    found->value.data = ConfigTable{};
  }
  set_value(
      std::get<ConfigTable>(found->value.data), path.substr(dot + 1), value);
}

// All that a user is told: the config, and what is said beside it.
struct Told {
  std::string config;
  std::string beside;

  bool operator==(const Told&) const = default;
};

Told told(const TranslationSource& source, System to) {
  const Translation result = translate(source, to);
  Told told{result.text, ""};
  for (const auto& lines : {result.lost, result.implied}) {
    for (const std::string& line : lines) {
      told.beside += line + "\n";
    }
  }
  return told;
}

Told told(const ForeignConfig& config, System to) {
  return told(translation_source(config, {.world = 64}), to);
}

// Both open tables and those whose keys have rows stand for their keys.
bool is_leaf(const KeyTable& keys, const KeyRow& row) {
  return row.type != KeyType::kTable && !keys.is_section(row.key) &&
         row.use == KeyUse::kUsed && row.key != "launch";
}

std::string named_in_full(const KeyRow& row) {
  std::string path(row.key);
  for (size_t star = path.find('*'); star != std::string::npos;
       star = path.find('*')) {
    path.replace(star, 1, "0");
  }
  return path;
}

// Its one other value is what stands there, or what another key there says.
bool is_set_so(const ForeignConfig& base,
               const std::string& path,
               const KeyRow& row) {
  if (path == "use-rotary-position-embeddings") {
    const Word kind = word_at(base, "position-embedding-type");
    return kind && *kind == "rope";
  }
  const std::vector<ConfigValue> values = other_values(row);
  const ConfigValue* old = find_value(base.table, path);
  return old != nullptr && values.size() == 1 &&
         value_text(*old) == value_text(values[0]);
}

void expect_no_key_is_dropped(const ForeignConfig& base, const KeyTable& keys) {
  int count = 0;
  for (const System to : kAll) {
    if (to == base.system) {
      continue;
    }
    const Told without = told(base, to);
    for (const KeyRow& row : keys.rows()) {
      const std::string path = named_in_full(row);
      if (!is_leaf(keys, row) || is_set_so(base, path, row)) {
        continue;
      }
      const std::vector<ConfigValue> values = other_values(row);
      const bool has_effect =
          std::ranges::any_of(values, [&](const ConfigValue& value) {
            ForeignConfig config = base;
            set_value(config.table, path, value);
            const Told with = told(config, to);
            return with != without ||
                   with.beside.find(path) != std::string::npos;
          });
      EXPECT_TRUE(values.empty() || has_effect)
          << path << " to " << system_name(to);
      ++count;
    }
  }
  EXPECT_GT(count, 4 * 100);
}

ForeignConfig sample(System system, const std::string& file) {
  const std::string path = TRIAX_SOURCE_DIR "/tests/" + file;
  return find_system(system)->read(read_file(path, 1 << 20), file);
}

TEST(TranslateKeys, OfDeepSpeedAreCarriedOrNamed) {
  const KeyTable& keys = find_system(System::kDeepSpeed)->keys();
  expect_no_key_is_dropped({System::kDeepSpeed, "a", {}, {}}, keys);
  expect_no_key_is_dropped(
      sample(System::kDeepSpeed, "foreign/deepspeed/cases/good_neox.w8.json"),
      keys);
}

TEST(TranslateKeys, OfMegatronAreCarriedOrNamed) {
  const SystemEntry* entry = find_system(System::kMegatron);
  expect_no_key_is_dropped({System::kMegatron, "a", {}, {}}, entry->keys());
  const std::string folder = TRIAX_SOURCE_DIR "/tests/cases/megatron/";
  int count = 0;
  for (const MegatronCase& of :
       read_megatron_cases(read_file(folder + "base.sh", 1 << 20),
                           read_file(folder + "cases.txt", 1 << 20))) {
    if (of.name == "good_llama_8b" || of.name == "good_gpt2_learned") {
      expect_no_key_is_dropped(entry->read(of.script, of.name), entry->keys());
      ++count;
    }
  }
  EXPECT_EQ(count, 2);
}

TEST(TranslateKeys, OfTorchTitanAreCarriedOrNamed) {
  const KeyTable& keys = find_system(System::kTorchTitan)->keys();
  expect_no_key_is_dropped({System::kTorchTitan, "a", {}, {}}, keys);
  expect_no_key_is_dropped(
      sample(System::kTorchTitan, "cases/torchtitan/pp2_interleaved.toml"),
      keys);
}

TEST(TranslateKeys, OfNanotronAreCarriedOrNamed) {
  expect_no_key_is_dropped({System::kNanotron, "a", {}, {}}, nanotron_keys());
  expect_no_key_is_dropped(
      sample(System::kNanotron, "cases/nanotron/plain.yaml"), nanotron_keys());
  expect_no_key_is_dropped(
      sample(System::kNanotron, "cases/nanotron/old_plain.yaml"),
      nanotron_old_keys());
}

// A value of each kind that some field takes; those that none does leave the
// key unset.
TEST(TranslateKeys, OfTriaxAreCarriedOrNamed) {
  int count = 0;
  for (const Field& field : fields()) {
    const std::string key(field.key);
    for (const std::string value : {"3",
                                    "0.375",
                                    "true",
                                    "false",
                                    "zz",
                                    "[3]",
                                    "[0.5, 0.6]",
                                    "[\"zz\"]",
                                    "cosine",
                                    "linear",
                                    "sgd",
                                    "gpipe",
                                    "gpt2",
                                    "bf16_autocast",
                                    "bf16",
                                    "llama3",
                                    "dp-tp-pp"}) {
      LoadedConfig loaded = parse_config("", "a.toml", {key + "=" + value});
      resolve(loaded, {});
      if (!loaded.is_set(key) ||
          print_value(field, loaded.config) == print_value(field, {})) {
        continue;
      }
      LoadedConfig plain = parse_config("", "a.toml");
      resolve(plain, {});
      for (const System to : kAll) {
        if (to == System::kTriax) {
          continue;
        }
        EXPECT_FALSE(told(translation_source(loaded), to) ==
                     told(translation_source(plain), to))
            << key << " = " << value << " to " << system_name(to);
        ++count;
      }
      break;
    }
  }
  EXPECT_GT(count, 4 * 30);
}

}  // namespace
}  // namespace triax
