// SPDX-License-Identifier: Apache-2.0
#include "cli/check_inputs.h"

#include <fmt/format.h>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/units.h"
#include "triax/config/parse_toml.h"
#include "triax/foreign/model_shapes.h"
#include "triax/foreign/system.h"
#include "triax/foreign/versions.h"

namespace triax {
namespace {

// As for a run file: a config is small, and what is not is none.
constexpr int64_t kMaxBytes = 1 << 20;

Problem unreadable(const std::string& file, const std::string& message) {
  return {Severity::kError, "unreadable", "", {file, 0, 0}, message};
}

// "deepspeed", or "deepspeed@0.14.5".
System kind_of_argument(const std::string& argument) {
  const std::string kind = argument.substr(0, argument.find('@'));
  const std::optional<System> system = parse_system(kind);
  if (!system) {
    throw Error("--kind ",
                kind,
                " is none of triax, deepspeed, megatron, torchtitan, "
                "nanotron");
  }
  return *system;
}

CheckInput read_input(const std::string& file,
                      const CheckArguments& arguments) {
  CheckInput input;
  input.file = file;
  try {
    input.text = read_file(file, kMaxBytes);
  } catch (const Error& error) {
    input.problem = unreadable(file, error.what());
    return input;
  }
  const std::optional<System> system = arguments.kind.empty()
                                           ? detect_system(file, input.text)
                                           : kind_of_argument(arguments.kind);
  if (!system) {
    input.problem = unreadable(
        file, "neither its name nor its content tell whose config it is");
    input.problem->fix =
        "give --kind triax, deepspeed, megatron, torchtitan or nanotron";
    return input;
  }
  input.system = *system;
  parse_input(input);
  return input;
}

CheckInput read_words(const std::vector<std::string>& words) {
  CheckInput input;
  input.file = "command line";
  input.system = System::kMegatron;
  const SystemEntry* entry = find_system(System::kMegatron);
  if (entry == nullptr || entry->read_words == nullptr) {
    throw Error(
        "arguments after -- are Megatron-LM's, which this triax does "
        "not read");
  }
  input.config = entry->read_words(words);
  return input;
}

template <class T>
const T* value_at(const ConfigTable& table, const std::string& key) {
  const ConfigValue* value = find_value(table, key);
  return value == nullptr ? nullptr : std::get_if<T>(&value->data);
}

void read_cluster(const std::string& file, ForeignContext& context) {
  const ParsedToml parsed = parse_toml(read_file(file, kMaxBytes), file);
  if (parsed.problem) {
    throw Error(to_text(*parsed.problem));
  }
  for (const ConfigEntry& entry : parsed.table) {
    const bool is_count =
        entry.key == "hosts" || entry.key == "devices_per_host";
    const bool is_text = entry.key == "device_memory" || entry.key == "network";
    const auto* count = std::get_if<int64_t>(&entry.value.data);
    if (!is_count && !is_text) {
      throw Error(file,
                  ": ",
                  entry.key,
                  " is none of hosts, devices_per_host, device_memory, "
                  "network");
    }
    if (is_count && (count == nullptr || *count < 1 || *count > 1 << 20)) {
      throw Error(file, ": ", entry.key, " takes a whole number above 0");
    }
    if (is_text && !std::holds_alternative<std::string>(entry.value.data)) {
      throw Error(file, ": ", entry.key, " takes a text such as \"80GiB\"");
    }
  }
  const auto* hosts = value_at<int64_t>(parsed.table, "hosts");
  const auto* devices = value_at<int64_t>(parsed.table, "devices_per_host");
  const auto* memory = value_at<std::string>(parsed.table, "device_memory");
  const auto* network = value_at<std::string>(parsed.table, "network");
  if (devices != nullptr) {
    context.ranks_on_host = *devices;
  }
  if (hosts != nullptr && devices != nullptr) {
    context.world = *hosts * *devices;
  }
  if (memory != nullptr) {
    context.device_bytes = parse_bytes(*memory);
  }
  if (network != nullptr) {
    context.link_bytes_per_second = parse_bandwidth(*network);
  }
}

RunFacts read_reference(const CheckArguments& arguments) {
  const CheckInput input = read_input(arguments.reference, arguments);
  const SystemEntry* entry = find_system(input.system);
  if (input.problem || !input.config || entry == nullptr) {
    throw Error("--reference ",
                arguments.reference,
                " is no config of DeepSpeed, Megatron-LM, TorchTitan or "
                "nanotron that can be read");
  }
  return entry->facts(*input.config);
}

}  // namespace

void parse_input(CheckInput& input) {
  const SystemEntry* entry = find_system(input.system);
  if (entry != nullptr) {
    input.config = entry->read(input.text, input.file);
  } else if (input.system != System::kTriax) {
    throw Error("this triax does not read configs of ",
                system_name(input.system));
  }
}

std::vector<CheckInput> read_inputs(const CheckArguments& arguments) {
  std::vector<CheckInput> inputs;
  for (const std::string& file : arguments.files) {
    inputs.push_back(read_input(file, arguments));
  }
  if (!arguments.words.empty()) {
    inputs.push_back(read_words(arguments.words));
  }
  return inputs;
}

ForeignContext make_context(const CheckArguments& arguments) {
  ForeignContext context;
  if (!arguments.cluster.empty()) {
    read_cluster(arguments.cluster, context);
  }
  if (arguments.num_ranks) {
    context.world = *arguments.num_ranks;
  }
  const size_t at = arguments.kind.find('@');
  if (at != std::string::npos) {
    context.version = resolve_version(kind_of_argument(arguments.kind),
                                      arguments.kind.substr(at + 1));
  }
  if (!arguments.model.empty()) {
    context.model = load_model_shape(arguments.model);
    context.model_file = arguments.model;
  }
  if (!arguments.reference.empty()) {
    context.reference = read_reference(arguments);
  }
  return context;
}

}  // namespace triax
