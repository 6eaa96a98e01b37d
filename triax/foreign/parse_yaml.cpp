// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/parse_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/parse_yaml_prescan.h"

namespace triax {
namespace {

constexpr size_t kMaxBytes = 8 << 20;
constexpr int64_t kMaxValues = 200000;
constexpr std::string_view kPrefix = "tag:yaml.org,2002:";

Problem syntax_problem(const Position& position, std::string message) {
  return {Severity::kError, "syntax", "", position, std::move(message), ""};
}

struct Refusal {
  Position position;
  std::string message;
};

int64_t count_values(const ConfigValue& value) {
  int64_t sum = 1;
  if (const auto* items = std::get_if<ConfigArray>(&value.data)) {
    for (const ConfigValue& item : *items) {
      sum += count_values(item);
    }
  } else if (const auto* table = std::get_if<ConfigTable>(&value.data)) {
    for (const ConfigEntry& entry : *table) {
      sum += count_values(entry.value);
    }
  }
  return sum;
}

// Builds the value from the parser's events, without recursion.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, std::string file, const YamlPrescan& prescan)
      : text_(text), file_(std::move(file)), prescan_(prescan) {}

  std::optional<ConfigValue> root;
  std::vector<Problem> problems;
  int num_documents = 0;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents > 1) {
      throw Refusal{at(mark), "a second document begins here; one is read"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const bool follows_key = !frames_.empty() && frames_.back().key;
    if (follows_key && frames_.back().is_block) {
      check_colon(*frames_.back().key);
    }
    ConfigValue value{ForeignValue{"null"},
                      follows_key ? frames_.back().key->position : at(mark)};
    add(std::move(value), anchor, "null", false);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw Refusal{at(mark), "an alias stands inside what it stands for"};
    }
    num_values_ += found->second.second - 1;
    check_count(at(mark));
    add(found->second.first, YAML::NullAnchor, "", false);
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& text) override {
    const Position position = at(mark);
    if (tag != "?" && position.line == prescan_.open_quote_line &&
        position.column == prescan_.open_quote_column) {
      throw Refusal{position, "the quote that opens here is never closed"};
    }
    add(scalar(text, tag, position), anchor, text, tag == "?");
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, false);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, true);
    frames_.back().is_block = style != YAML::EmitterStyle::Flow;
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string text;
    Position position;
    bool is_merge = false;
    bool is_plain = false;
  };
  struct Frame {
    bool is_map = false;
    bool is_block = false;
    Position position;
    YAML::anchor_t anchor = YAML::NullAnchor;
    ConfigArray items;
    ConfigTable entries;
    std::unordered_map<std::string, size_t> places;
    std::vector<ConfigValue> merged;
    std::optional<Key> key;
  };

  Position at(const YAML::Mark& mark) const {
    return {file_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }

  // Asked for in rising order: one pass over the text in all.
  size_t start_of_line(int line) {
    for (; line_ < line; ++line_) {
      line_start_ = text_.find('\n', line_start_) + 1;
    }
    return line_start_;
  }

  // yaml-cpp takes "a b" on a line of its own for a key; PyYAML does not.
  void check_colon(const Key& key) {
    if (!key.is_plain || key.text.empty()) {
      return;
    }
    const size_t start = start_of_line(key.position.line);
    const size_t end = std::min(text_.find('\n', start), text_.size());
    const std::string_view line = text_.substr(start, end - start);
    const size_t column = static_cast<size_t>(key.position.column) - 1;
    if (line.substr(0, column).find('?') != std::string_view::npos ||
        column > line.size() || !line.substr(column).starts_with(key.text)) {
      return;
    }
    const size_t next =
        line.find_first_not_of(" \t\r", column + key.text.size());
    if (next == std::string_view::npos || line[next] != ':') {
      throw Refusal{key.position, "a ':' is missing after this key"};
    }
  }

  void check_count(const Position& position) const {
    if (num_values_ > kMaxValues) {
      throw Refusal{position,
                    fmt::format("more than {} values; an alias counts as "
                                "what it stands for",
                                kMaxValues)};
    }
  }

  static bool is_plain_tag(const std::string& tag) {
    return tag.empty() || tag == "?" || tag == "!";
  }

  ConfigValue scalar(const std::string& text,
                     const std::string& tag,
                     const Position& position) const {
    if (tag == "?") {
      return resolve_yaml_scalar(text, position);
    }
    if (is_plain_tag(tag)) {
      return {text, position};
    }
    const std::string_view name =
        std::string_view(tag).starts_with(kPrefix)
            ? std::string_view(tag).substr(kPrefix.size())
            : "";
    if (name == "str") {
      return {text, position};
    }
    if (name == "null") {
      return {ForeignValue{"null"}, position};
    }
    if (name == "int" || name == "float" || name == "bool" ||
        name == "timestamp") {
      return tagged(name, text, position);
    }
    if (name == "binary") {
      return {ForeignValue{"binary data"}, position};
    }
    throw unknown_tag(tag, position);
  }

  // !!float takes what Python's float() takes; 1e-4 is the case in use.
  ConfigValue tagged(std::string_view name,
                     const std::string& text,
                     const Position& position) const {
    ConfigValue value = resolve_yaml_scalar(text, position);
    if (name == "float") {
      if (const auto* whole = std::get_if<int64_t>(&value.data)) {
        return {static_cast<double>(*whole), position};
      }
      if (std::holds_alternative<std::string>(value.data)) {
        std::istringstream in(text);
        in.imbue(std::locale::classic());
        double real = 0;
        if (in >> real && in.eof()) {
          return {real, position};
        }
      }
    }
    const bool fits =
        name == "float"  ? std::holds_alternative<double>(value.data)
        : name == "int"  ? std::holds_alternative<int64_t>(value.data)
        : name == "bool" ? std::holds_alternative<bool>(value.data)
                         : std::holds_alternative<ForeignValue>(value.data);
    if (!fits) {
      throw Refusal{position,
                    fmt::format("{} is no {}", in_quotes(text), name)};
    }
    return value;
  }

  static Refusal unknown_tag(const std::string& tag, const Position& position) {
    return {position,
            fmt::format("the tag {} is none that a safe loader knows",
                        in_quotes(tag))};
  }

  void open(const YAML::Mark& mark,
            const std::string& tag,
            YAML::anchor_t anchor,
            bool is_map) {
    const std::string own = std::string(kPrefix) + (is_map ? "map" : "seq");
    if (!is_plain_tag(tag) && tag != own) {
      throw unknown_tag(tag, at(mark));
    }
    if (!frames_.empty() && frames_.back().is_map && !frames_.back().key) {
      throw Refusal{at(mark), "a list or a table is no key"};
    }
    Frame frame;
    frame.is_map = is_map;
    frame.position = at(mark);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    ConfigValue value;
    value.position = frame.position;
    if (frame.is_map) {
      for (const ConfigValue& merged : frame.merged) {
        merge(frame, merged);
      }
      value.data = std::move(frame.entries);
    } else {
      value.data = std::move(frame.items);
    }
    add(std::move(value), frame.anchor, "", false);
  }

  // What stands in the table itself goes before what is merged into it, and
  // the first merged table before the next.
  void merge(Frame& frame, const ConfigValue& merged) const {
    if (const auto* table = std::get_if<ConfigTable>(&merged.data)) {
      for (const ConfigEntry& entry : *table) {
        if (frame.places.emplace(entry.key, frame.entries.size()).second) {
          frame.entries.push_back(entry);
        }
      }
      return;
    }
    const auto* items = std::get_if<ConfigArray>(&merged.data);
    const auto is_table = [](const ConfigValue& item) {
      return std::holds_alternative<ConfigTable>(item.data);
    };
    if (items == nullptr || !std::ranges::all_of(*items, is_table)) {
      throw Refusal{merged.position, "'<<' takes a table or a list of tables"};
    }
    for (const ConfigValue& item : *items) {
      merge(frame, item);
    }
  }

  void add(ConfigValue value,
           YAML::anchor_t anchor,
           const std::string& text,
           bool is_plain) {
    ++num_values_;
    check_count(value.position);
    if (anchor != YAML::NullAnchor) {
      anchors_[anchor] = {value, count_values(value)};
    }
    if (frames_.empty()) {
      root = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (!frame.is_map) {
      frame.items.push_back(std::move(value));
    } else if (!frame.key) {
      frame.key = key_of(value, text, is_plain);
    } else {
      set(frame, std::move(value));
    }
  }

  static Key key_of(const ConfigValue& value,
                    const std::string& text,
                    bool is_plain) {
    if (const auto* word = std::get_if<std::string>(&value.data)) {
      return {*word, value.position, is_plain && *word == "<<", is_plain};
    }
    if (std::holds_alternative<ConfigArray>(value.data) ||
        std::holds_alternative<ConfigTable>(value.data)) {
      throw Refusal{value.position, "a list or a table is no key"};
    }
    return {text, value.position, false, is_plain};
  }

  void set(Frame& frame, ConfigValue value) {
    const Key key = std::move(*frame.key);
    frame.key.reset();
    if (key.is_merge) {
      frame.merged.push_back(std::move(value));
      return;
    }
    const auto [place, is_new] =
        frame.places.emplace(key.text, frame.entries.size());
    if (is_new) {
      frame.entries.push_back({key.text, key.position, std::move(value)});
      return;
    }
    ConfigEntry& former = frame.entries[place->second];
    // A null, or the same again, that gives way is no loss.
    const auto* unset = std::get_if<ForeignValue>(&former.value.data);
    const bool is_same = value_text(former.value) == value_text(value) &&
                         !std::holds_alternative<ConfigTable>(value.data) &&
                         !std::holds_alternative<ConfigArray>(value.data);
    const bool is_harmless =
        is_same || (unset != nullptr && unset->kind == "null");
    problems.push_back(
        {is_harmless ? Severity::kNote : Severity::kWarning,
         "duplicate-key",
         key.text,
         key.position,
         fmt::format("stands in line {} too; the last one counts, the first "
                     "is dropped without a word",
                     former.key_position.line),
         "leave one of them",
         Effect::kSilentlyDifferent});
    former = {key.text, key.position, std::move(value)};
  }

  std::string_view text_;
  int line_ = 1;
  size_t line_start_ = 0;
  std::string file_;
  YamlPrescan prescan_;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, std::pair<ConfigValue, int64_t>> anchors_;
  int64_t num_values_ = 0;
};

ParsedYaml failed(const Position& position, std::string message) {
  return {{}, {syntax_problem(position, std::move(message))}};
}

ParsedYaml finish(Builder& builder, const std::string& file) {
  const bool is_empty =
      !builder.root || std::holds_alternative<ForeignValue>(builder.root->data);
  if (is_empty) {
    return failed({file, 1, 1}, "the file holds nothing");
  }
  auto* table = std::get_if<ConfigTable>(&builder.root->data);
  if (table == nullptr) {
    return failed(builder.root->position,
                  "the file is " + kind_of(*builder.root) +
                      ", and a config is a table of keys");
  }
  return {std::move(*table), std::move(builder.problems)};
}

}  // namespace

ParsedYaml parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    return failed({file, 0, 0},
                  fmt::format("{} bytes; a config of more than {} is not read",
                              text.size(),
                              kMaxBytes));
  }
  const YamlPrescan prescan = prescan_yaml(text);
  if (prescan.finding) {
    return failed({file, prescan.finding->line, prescan.finding->column},
                  prescan.finding->message);
  }
  Builder builder(text, file, prescan);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    return failed(refusal.position, refusal.message);
  } catch (const YAML::ParserException& error) {
    return failed({file,
                   std::max(error.mark.line, 0) + 1,
                   std::max(error.mark.column, 0) + 1},
                  error.msg);
  }
  return finish(builder, file);
}

}  // namespace triax
