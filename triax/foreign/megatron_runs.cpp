// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_runs.h"

#include <algorithm>
#include <string>

#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

constexpr std::string_view kTellingKeys[] = {"num-layers",
                                             "hidden-size",
                                             "num-attention-heads",
                                             "seq-length",
                                             "micro-batch-size",
                                             "global-batch-size",
                                             "tensor-model-parallel-size",
                                             "pipeline-model-parallel-size",
                                             "max-position-embeddings",
                                             "train-iters",
                                             "train-samples",
                                             "hybrid-layer-pattern",
                                             "model-parallel-size",
                                             "batch-size"};

bool is_telling(std::string_view key) {
  return std::find(std::begin(kTellingKeys), std::end(kTellingKeys), key) !=
         std::end(kTellingKeys);
}

// Programs beside the training whose parsers share some arguments with it.
bool is_other_program(std::string_view script) {
  static const std::string_view kOthers[] = {
      "preprocess", "convert", "merge_", "tokenize", "download", "hf_to"};
  const size_t slash = script.rfind('/');
  const std::string_view name =
      slash == std::string_view::npos ? script : script.substr(slash + 1);
  return std::any_of(
      std::begin(kOthers), std::end(kOthers), [&](std::string_view other) {
        return name.find(other) != std::string_view::npos;
      });
}

std::string_view key_of(const std::string& word) {
  if (!word.starts_with("--")) {
    return {};
  }
  const std::string_view key = std::string_view(word).substr(2);
  return key.substr(0, key.find('='));
}

// The last .py before the first argument that Megatron-LM knows, else the
// word after -m; without either, the arguments begin where the first known
// one stands.
void find_script(const std::vector<ShellField>& fields,
                 MegatronRun& candidate) {
  size_t first_known = 0;
  while (first_known < fields.size() &&
         find_megatron_row(key_of(fields[first_known].text())) == nullptr) {
    ++first_known;
  }
  candidate.first_argument = first_known;
  candidate.script = first_known;
  for (size_t i = 0; i < first_known; ++i) {
    const std::string word = fields[i].text();
    const bool is_module =
        i > 0 && fields[i - 1].text() == "-m" && !word.starts_with("torch.");
    if (word.ends_with(".py") || is_module) {
      candidate.script = i;
      candidate.first_argument = i + 1;
    }
  }
  const bool has_script = candidate.script < candidate.first_argument;
  // Words without a program are all arguments, a fork's before the known too.
  if (!has_script && (candidate.is_bare || first_known == fields.size())) {
    candidate.script = 0;
    candidate.first_argument = 0;
  }
}

void look_at(const ShellRun& run, std::vector<MegatronRun>& candidates) {
  MegatronRun candidate;
  candidate.run = &run;
  candidate.is_bare = run.fields[0].text().starts_with("--");
  find_script(run.fields, candidate);
  const std::string script = run.fields[candidate.script].text();
  if (candidate.script < candidate.first_argument && is_other_program(script)) {
    return;
  }
  for (size_t i = candidate.first_argument; i < run.fields.size(); ++i) {
    const std::string word = run.fields[i].text();
    const std::string_view key = key_of(word);
    const bool is_known = find_megatron_row(key) != nullptr ||
                          find_megatron_fork_row(key) != nullptr;
    candidate.num_known += is_known ? 1 : 0;
    candidate.is_telling = candidate.is_telling || is_telling(key);
  }
  candidates.push_back(candidate);
}

}  // namespace

std::span<const std::string_view> megatron_telling_keys() {
  return kTellingKeys;
}

std::vector<MegatronRun> find_megatron_runs(const ShellRuns& runs) {
  std::vector<MegatronRun> candidates;
  for (const ShellRun& run : runs.runs) {
    look_at(run, candidates);
  }
  return candidates;
}

const MegatronRun* best_megatron_run(const std::vector<MegatronRun>& runs) {
  const MegatronRun* best = nullptr;
  for (const MegatronRun& candidate : runs) {
    const bool counts = candidate.is_telling && !candidate.is_bare;
    if (counts && (best == nullptr || candidate.num_known > best->num_known)) {
      best = &candidate;
    }
  }
  return best;
}

}  // namespace triax
