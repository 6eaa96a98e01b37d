// SPDX-License-Identifier: Apache-2.0
// What a training program of Megatron-LM's own does not start without: its
// model, its batch, its data and what its tokenizer is made of.
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/megatron_rules.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

using Args = MegatronArguments;

struct Required {
  std::string_view key;
  std::vector<std::string_view> others;  // each of them will do
  const char* fix;
};

// validate_args asserts the first six; without the others the schedule of the
// learning rate cannot be made.
const std::vector<Required>& required_arguments() {
  static const std::vector<Required> table = {
      {"micro-batch-size", {"batch-size"}, "add --micro-batch-size 1"},
      {"num-layers",
       {"encoder-num-layers",
        "hybrid-layer-pattern",
        "hybrid-override-pattern",
        "heterogeneous-layers-config-path",
        "heterogeneous-layers-config-encoded-json"},
       "add --num-layers"},
      {"hidden-size", {}, "add --hidden-size"},
      {"num-attention-heads", {}, "add --num-attention-heads"},
      {"max-position-embeddings",
       {"max-absolute-position-embeddings"},
       "add --max-position-embeddings"},
      {"seq-length", {"encoder-seq-length"}, "add --seq-length"},
      {"train-iters",
       {"train-samples", "skip-train", "train-tokens", "perform-rl-step"},
       "add --train-iters or --train-samples"},
      {"lr", {"skip-train"}, "add --lr"},
  };
  return table;
}

bool is_any_set(const Args& args, const std::vector<std::string_view>& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
    return args.is_set(key);
  });
}

std::vector<const Required*> missing_arguments(const Args& args) {
  std::vector<const Required*> missing;
  for (const Required& required : required_arguments()) {
    if (!args.is_set(required.key) && !is_any_set(args, required.others)) {
      missing.push_back(&required);
    }
  }
  return missing;
}

void add_missing(ForeignFindings& findings,
                 Severity severity,
                 std::string_view key,
                 const std::string& message,
                 const std::string& fix,
                 Effect effect) {
  findings.add({severity,
                "missing-argument",
                std::string(key),
                {findings.config.file, 0, 0},
                message,
                fix,
                effect,
                {}});
}

// Another program on this base may read its data and tokenizer otherwise.
bool has_arguments_of_others(const ForeignFindings& findings) {
  return std::any_of(findings.config.table.begin(),
                     findings.config.table.end(),
                     [](const ConfigEntry& entry) {
                       const auto* fork = find_megatron_fork_row(entry.key);
                       const bool is_older = fork != nullptr &&
                                             fork->fork == MegatronFork::kOlder;
                       return entry.key != "launch" &&
                              entry.key != "environment" &&
                              megatron_keys().find(entry.key) == nullptr &&
                              !is_older;
                     });
}

bool has_lost_arguments(const ForeignFindings& findings) {
  return std::any_of(
      findings.config.problems.begin(),
      findings.config.problems.end(),
      [](const Problem& problem) { return problem.rule == "lost-arguments"; });
}

// BlendedMegatronDatasetConfig takes no path for mock data, and the class that
// would read files then fails at the path None.
void check_data(ForeignFindings& findings, const Args& args) {
  static const std::vector<std::string_view> kSources = {
      "data-path",
      "data-args-path",
      "train-data-path",
      "valid-data-path",
      "test-data-path",
      "per-split-data-args-path",
      "mock-data",
      // Their data come another way.
      "skip-train",
      "perform-rl-step",
      "sft"};
  if (is_any_set(args, kSources) ||
      args.text("dataloader-type").value_or("") == "external") {
    return;
  }
  add_missing(findings,
              Severity::kError,
              "data-path",
              "there are no data: none of --data-path, --train-data-path, "
              "--data-args-path, --per-split-data-args-path and --mock-data is "
              "given, and Megatron-LM stops once the model is built "
              "(\"GPTDataset failed to build as a mock data generator\")",
              "add --data-path PREFIX, or --mock-data to try the run out",
              Effect::kFailsLater);
}

// The tokenizer that a program takes where none is named.
std::string tokenizer_of(const Args& args) {
  const std::string given = args.text("tokenizer-type").value_or("");
  if (!given.empty() || args.is_set("tokenizer-type")) {
    return given;
  }
  const std::string& script = args.script();
  return script == "pretrain_bert.py" || script == "pretrain_t5.py"
             ? "BertWordPieceLowerCase"
             : "GPT2BPETokenizer";
}

bool is_one_of(std::string_view word,
               std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// build_tokenizer, which every rank calls before it joins the others.
void check_tokenizer(ForeignFindings& findings, const Args& args) {
  const std::string kind = tokenizer_of(args);
  const std::string name =
      args.is_set("tokenizer-type")
          ? fmt::format("--tokenizer-type {}", kind)
          : fmt::format("{}, the tokenizer where none is named,", kind);
  const bool needs_model = is_one_of(kind,
                                     {"SentencePieceTokenizer",
                                      "GPTSentencePieceTokenizer",
                                      "Llama2Tokenizer",
                                      "HuggingFaceTokenizer",
                                      "TikTokenizer",
                                      "SFTTokenizer"});
  if (needs_model && !args.is_set("tokenizer-model")) {
    add_missing(findings,
                Severity::kError,
                "tokenizer-model",
                fmt::format("{} is made from --tokenizer-model, which is not "
                            "given, and Megatron-LM stops (\"Tokenizer path "
                            "must be specified.\")",
                            name),
                kind == "HuggingFaceTokenizer" || kind == "SFTTokenizer"
                    ? "add --tokenizer-model with a folder or a name of the hub"
                    : "add --tokenizer-model FILE",
                Effect::kRefused);
    return;
  }
  if (is_one_of(kind, {"NullTokenizer", "NullMultimodalTokenizer"}) &&
      !args.is_set("vocab-size")) {
    add_missing(findings,
                Severity::kError,
                "vocab-size",
                fmt::format("{} has no other vocabulary than --vocab-size, "
                            "which is not given, and Megatron-LM stops",
                            name),
                "add --vocab-size 32000",
                Effect::kRefused);
    return;
  }
  const bool is_gpt = kind == "GPT2BPETokenizer";
  const bool is_bert =
      is_one_of(kind, {"BertWordPieceLowerCase", "BertWordPieceCase"});
  const bool lacks_vocabulary = !args.is_set("vocab-file");
  const bool lacks_merges = is_gpt && !args.is_set("merge-file");
  if ((is_gpt || is_bert) && (lacks_vocabulary || lacks_merges)) {
    const char* what = lacks_vocabulary && lacks_merges
                           ? "--vocab-file and --merge-file"
                       : lacks_vocabulary ? "--vocab-file"
                                          : "--merge-file";
    add_missing(findings,
                Severity::kWarning,
                lacks_vocabulary ? "vocab-file" : "merge-file",
                fmt::format("{} is made from files, and without {} Megatron-LM "
                            "downloads {} with the package wget, and stops on "
                            "a host that has no network or no such package",
                            name,
                            what,
                            is_gpt ? "GPT-2's" : "BERT's"),
                fmt::format("add {}", what),
                Effect::kFailsLater);
  }
}

}  // namespace

bool is_own_megatron_program(std::string_view script) {
  return is_one_of(script,
                   {"pretrain_gpt.py",
                    "pretrain_bert.py",
                    "pretrain_t5.py",
                    "pretrain_mamba.py",
                    "pretrain_hybrid.py"});
}

void check_megatron_required(ForeignFindings& findings, const Args& args) {
  const bool is_of_pair = findings.context.is_of_pair;
  const bool is_whole = is_own_megatron_program(args.script()) ||
                        (args.is_command_line() && !is_of_pair);
  const bool is_part =
      args.script().empty() && !args.is_command_line() && !is_of_pair;
  if (!args.is_closed() || args.is_deepspeed() || (!is_whole && !is_part)) {
    return;
  }
  const std::vector<const Required*> missing = missing_arguments(args);
  if (is_part) {
    std::vector<std::string> names;
    for (const Required* required : missing) {
      names.push_back("--" + std::string(required->key));
    }
    if (!names.empty() && names.size() < required_arguments().size()) {
      findings.not_judged(
          fmt::format("whether {} stand elsewhere, without which Megatron-LM "
                      "stops: no program is named here",
                      fmt::join(names, ", ")));
    }
    return;
  }
  for (const Required* required : missing) {
    add_missing(findings,
                Severity::kError,
                required->key,
                "it is not given, and Megatron-LM stops without it",
                required->fix,
                Effect::kRefused);
  }
  if (!is_of_pair && !has_lost_arguments(findings) &&
      !has_arguments_of_others(findings)) {
    check_data(findings, args);
    check_tokenizer(findings, args);
  }
}

}  // namespace triax
