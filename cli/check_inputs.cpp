// SPDX-License-Identifier: Apache-2.0
#include "cli/check_inputs.h"

#include <fmt/format.h>

#include "triax/base/byte_order_mark.h"
#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/units.h"
#include "triax/config/parse_toml.h"
#include "triax/foreign/model_shapes.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/system.h"
#include "triax/foreign/triax_facts.h"
#include "triax/foreign/versions.h"

namespace triax {
namespace {

// As for a run file: a config is small, and what is not is none.
constexpr int64_t kMaxBytes = 1 << 20;

Problem unreadable(const std::string& file, const std::string& message) {
  return {Severity::kError, "unreadable", "", {file, 0, 0}, message};
}

// "deepspeed", or "deepspeed@0.14.5".
struct Kind {
  System system = System::kTriax;
  std::string version;   // as it was written; empty: the newest
  std::string resolved;  // what ForeignContext::version holds of it
};

Kind parse_kind(const std::string& argument) {
  const size_t at = argument.find('@');
  const std::string name = argument.substr(0, at);
  const std::optional<System> system = parse_system(name);
  if (!system) {
    throw Error("--kind ",
                name,
                " is none of triax, deepspeed, megatron, torchtitan, "
                "nanotron");
  }
  if (at == std::string::npos) {
    return {*system, "", ""};
  }
  const std::string version = argument.substr(at + 1);
  return {*system, version, resolve_version(*system, version)};
}

void check_layout(const CheckInput& input, const std::string& version) {
  const bool is_asked_for = input.system == System::kNanotron && input.config &&
                            !input.config->table.empty() && !version.empty();
  if (!is_asked_for) {
    return;
  }
  const bool is_old = is_old_nanotron(*input.config);
  if (is_old != (version == "0.4")) {
    throw Error("--kind nanotron@",
                version,
                ": ",
                input.file,
                " has the layout of ",
                is_old ? "0.4" : "main",
                "; give --kind nanotron@",
                is_old ? "0.4" : "main");
  }
}

CheckInput read_input(const std::string& file,
                      const CheckArguments& arguments,
                      const ForeignContext& context) {
  CheckInput input;
  input.file = file;
  try {
    input.text = read_file(file, kMaxBytes);
  } catch (const Error& error) {
    input.problem = unreadable(file, error.what());
    return input;
  }
  input.has_mark = input.text.starts_with(kByteOrderMark);
  if (input.has_mark) {
    input.text.erase(0, kByteOrderMark.size());
  }
  const Kind kind =
      arguments.kind.empty() ? Kind{} : parse_kind(arguments.kind);
  const std::optional<System> system =
      arguments.kind.empty() ? detect_system(file, input.text) : kind.system;
  if (!system) {
    input.problem = unreadable(
        file,
        "neither its name nor its content tell whose config it is: no section "
        "or key of triax or TorchTitan (.toml), DeepSpeed (JSON), nanotron "
        "(.yaml) or argument of Megatron-LM that would tell was found");
    input.problem->fix =
        "give --kind triax, deepspeed, megatron, torchtitan or nanotron";
    return input;
  }
  input.system = *system;
  parse_input(input, context);
  check_layout(input, kind.version);
  return input;
}

CheckInput read_words(const CheckArguments& arguments) {
  const Kind kind = arguments.kind.empty() ? Kind{System::kMegatron, "", ""}
                                           : parse_kind(arguments.kind);
  if (kind.system != System::kMegatron && arguments.files.empty()) {
    throw Error("--kind ",
                arguments.kind,
                " does not go with arguments after --, which are "
                "Megatron-LM's; give a file, or leave --kind out");
  }
  if (kind.system == System::kTriax || arguments.files.size() > 1) {
    throw Error(
        "arguments after -- are Megatron-LM's, and go alone or with the one "
        "DeepSpeed JSON of the same run");
  }
  CheckInput input;
  input.file = "command line";
  input.system = System::kMegatron;
  input.config = find_system(System::kMegatron)->read_words(arguments.words);
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

[[noreturn]] void refuse_reference(const std::string& file,
                                   const Problem& problem) {
  throw Error("--reference ", file, ": ", to_text(problem));
}

void stop_at_errors(const std::string& file,
                    const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) {
    if (problem.rule == "unreadable" || problem.rule == "syntax") {
      refuse_reference(file, problem);
    }
  }
}

// Of any system; its world is that of the run that is checked.
RunFacts read_reference(const CheckArguments& arguments,
                        const ForeignContext& context) {
  const std::string& file = arguments.reference;
  const CheckInput input = read_input(file, arguments, context);
  if (input.problem) {
    refuse_reference(file, *input.problem);
  }
  if (input.loaded) {
    stop_at_errors(file, input.loaded->problems);
    return triax_facts(*input.loaded);
  }
  stop_at_errors(file, input.config->problems);
  return find_system(input.system)->facts(*input.config);
}

}  // namespace

void parse_input(CheckInput& input, const ForeignContext& context) {
  if (const SystemEntry* entry = find_system(input.system)) {
    input.config = entry->read(input.text, input.file);
    return;
  }
  // One world for all that is asked about the run.
  std::optional<int> num_ranks;
  if (context.world && *context.world <= (1 << 16)) {
    num_ranks = static_cast<int>(*context.world);
  }
  input.loaded = parse_config(input.text, input.file);
  resolve(*input.loaded, num_ranks);
}

std::vector<CheckInput> read_inputs(const CheckArguments& arguments,
                                    const ForeignContext& context) {
  std::vector<CheckInput> inputs;
  inputs.reserve(arguments.files.size() + 1);
  for (const std::string& file : arguments.files) {
    inputs.push_back(read_input(file, arguments, context));
  }
  if (!arguments.words.empty()) {
    inputs.push_back(read_words(arguments));
  }
  return inputs;
}

ForeignContext make_context(const CheckArguments& arguments) {
  ForeignContext context;
  if (!arguments.cluster.empty()) {
    read_cluster(arguments.cluster, context);
  }
  if (arguments.num_ranks) {
    if (context.world && *arguments.num_ranks > *context.world) {
      throw Error("--world ",
                  *arguments.num_ranks,
                  " is more than the ",
                  *context.world,
                  " devices of --cluster ",
                  arguments.cluster,
                  " (hosts * devices_per_host); give one of the two, or a "
                  "larger cluster");
    }
    context.world = *arguments.num_ranks;
  }
  if (!arguments.kind.empty()) {
    const Kind kind = parse_kind(arguments.kind);
    context.version = kind.resolved;
    context.is_version_given = !kind.version.empty();
  }
  if (!arguments.model.empty()) {
    context.model = load_model_shape(arguments.model);
    context.model_file = arguments.model;
  }
  if (!arguments.reference.empty()) {
    context.reference = read_reference(arguments, context);
  }
  return context;
}

}  // namespace triax
