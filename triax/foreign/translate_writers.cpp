// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate_writers.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/base/error.h"

namespace triax {
namespace {

using OrderedJson = nlohmann::ordered_json;

// One literal of JSON, which is one of TOML and of YAML too: but for a whole
// number that is a double, which keeps its point.
std::string literal(const Json& value) {
  return dump_json(value);
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos;
       dot = path.find('.', begin)) {
    parts.push_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  parts.push_back(path.substr(begin));
  return parts;
}

OrderedJson tree_of(const std::vector<KeyValue>& keys) {
  OrderedJson root = OrderedJson::object();
  for (const auto& [path, value] : keys) {
    OrderedJson* place = &root;
    for (const std::string& part : parts_of(path)) {
      place = &(*place)[part];
    }
    *place = OrderedJson::parse(literal(value));
  }
  return root;
}

void write_yaml(const OrderedJson& table, int indent, std::string& text) {
  for (const auto& [key, value] : table.items()) {
    text += std::string(static_cast<size_t>(indent), ' ') + key + ":";
    if (value.is_object()) {
      text += "\n";
      write_yaml(value, indent + 2, text);
    } else {
      text += " " + value.dump() + "\n";
    }
  }
}

std::string toml_of(const std::vector<KeyValue>& keys) {
  std::vector<std::string> sections;
  const auto section_of = [](const std::string& path) {
    return path.substr(0, path.rfind('.'));
  };
  for (const auto& [path, value] : keys) {
    const std::string section = section_of(path);
    if (std::find(sections.begin(), sections.end(), section) ==
        sections.end()) {
      sections.push_back(section);
    }
  }
  std::string text;
  for (const std::string& section : sections) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const auto& [path, value] : keys) {
      if (section_of(path) == section) {
        text += fmt::format(
            "{} = {}\n", path.substr(path.rfind('.') + 1), literal(value));
      }
    }
  }
  return text;
}

std::string flags_of(const std::vector<KeyValue>& keys) {
  std::string text;
  for (const auto& [flag, value] : keys) {
    if (value == Json(true)) {
      text += fmt::format("--{}\n", flag);
    } else if (value.is_string()) {
      text += fmt::format("--{} {}\n", flag, value.get<std::string>());
    } else {
      text += fmt::format("--{} {}\n", flag, literal(value));
    }
  }
  return text;
}

const Json* find_key(const std::vector<KeyValue>& keys,
                     const std::string& path) {
  for (const auto& [key, value] : keys) {
    if (key == path) {
      return &value;
    }
  }
  return nullptr;
}

void drop_keys(std::vector<KeyValue>& keys, const std::string& prefix) {
  std::erase_if(keys, [&prefix](const KeyValue& key) {
    return key.first.starts_with(prefix);
  });
}

// beta1 and beta2 are one list in `section`.
void join_betas(std::vector<KeyValue>& keys, const std::string& section) {
  const Json* first = find_key(keys, section + "beta1");
  const Json* second = find_key(keys, section + "beta2");
  if (first != nullptr && second != nullptr) {
    const Json betas = Json::array({*first, *second});
    keys.emplace_back(section + "betas", betas);
  }
  drop_keys(keys, section + "beta1");
  drop_keys(keys, section + "beta2");
}

// DeepSpeed hands a schedule its parameters as they are, and the schedule sets
// the rate itself.
void finish_deepspeed(std::vector<KeyValue>& keys) {
  join_betas(keys, "optimizer.params.");
  if (find_key(keys, "optimizer.type") == nullptr) {
    drop_keys(keys, "optimizer.");
  }
  if (find_key(keys, "fp16.enabled") == nullptr) {
    drop_keys(keys, "fp16.");
  }
  const Json* found = find_key(keys, "scheduler.type");
  const Json type = found == nullptr ? Json() : *found;
  if (type.is_null()) {
    drop_keys(keys, "scheduler.");
    return;
  }
  if (type == Json("WarmupLR")) {
    drop_keys(keys, "scheduler.params.total_num_steps");
  }
  const Json* lr = find_key(keys, "optimizer.params.lr");
  if (lr != nullptr && type != Json("WarmupCosineLR")) {
    const Json rate = *lr;
    keys.emplace_back("scheduler.params.warmup_max_lr", rate);
  }
}

}  // namespace

std::string TargetWriter::write(const std::string& name, const Json& value) {
  std::string why;
  for (KeyValue& key : writer_(name, value, why)) {
    const auto same = [&key](const KeyValue& other) {
      return other.first == key.first;
    };
    if (std::none_of(keys_.begin(), keys_.end(), same)) {
      keys_.push_back(std::move(key));
    }
  }
  return why;
}

std::string TargetWriter::text() const {
  std::vector<KeyValue> keys = keys_;
  if (system_ == System::kDeepSpeed) {
    finish_deepspeed(keys);
  } else if (system_ == System::kTriax) {
    join_betas(keys, "optimizer.");
  }
  switch (system_) {
    case System::kDeepSpeed:
      return tree_of(keys).dump(2) + "\n";
    case System::kMegatron:
      return flags_of(keys);
    case System::kNanotron: {
      std::string text;
      write_yaml(tree_of(keys), 0, text);
      return text;
    }
    case System::kTriax:
    case System::kTorchTitan:
      return toml_of(keys);
  }
  return "";
}

TargetWriter make_writer(System to) {
  switch (to) {
    case System::kTriax:
      return {to, write_triax};
    case System::kDeepSpeed:
      return {to, write_deepspeed};
    case System::kMegatron:
      return {to, write_megatron};
    case System::kTorchTitan:
      return {to, write_torchtitan};
    case System::kNanotron:
      return {to, write_nanotron};
  }
  throw Error("there is no such system");
}

}  // namespace triax
