// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "triax/base/saturating.h"
#include "triax/check/findings.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Number = std::optional<int64_t>;

constexpr int64_t kMaxLayers = 1 << 20;

// The layers a stage counts, with the embedding and the loss where they count
// as one each.
struct Pipeline {
  int64_t pp = 1;
  int64_t layers = 0;
  int64_t extra = 0;
  std::string counted;  // "32 layers + the loss"
};

class PipelineJudge {
 public:
  PipelineJudge(ForeignFindings& findings, const MegatronArguments& args)
      : findings_(findings), args_(args) {}

  void judge() {
    if (args_.is_set("hybrid-layer-pattern") ||
        args_.is_set("hybrid-override-pattern")) {
      check_megatron_pattern(findings_, args_);
      return;
    }
    check_one_way();
    const Number pp = args_.whole("pipeline-model-parallel-size");
    if (!pp || *pp < 1 || *pp > kMaxLayers) {
      return;
    }
    const Number layers = args_.whole("num-layers");
    pipeline_.pp = *pp;
    const char* layout = "pipeline-model-parallel-layout";
    if (args_.is_set(layout)) {
      check_interleaving(check_megatron_layout(findings_, args_, *pp), layout);
      return;
    }
    if (layers && *layers > 0 && *layers <= kMaxLayers) {
      pipeline_.layers = *layers;
      count_extra();
      judge_split();
    }
    check_interleaving(num_chunks(), chunks_key());
  }

 private:
  void error(const std::string& rule,
             const std::string& key,
             const std::string& message,
             const std::string& fix) {
    findings_.error(rule, key, message, fix);
  }

  bool is_uneven() const {
    return args_.is_set("decoder-first-pipeline-num-layers") ||
           args_.is_set("decoder-last-pipeline-num-layers");
  }

  bool may_be_uneven() const {
    return !args_.is_off("decoder-first-pipeline-num-layers") ||
           !args_.is_off("decoder-last-pipeline-num-layers");
  }

  // Chunks come from one of three arguments.
  void check_one_way() {
    std::vector<std::string> ways;
    for (const char* key : {"num-layers-per-virtual-pipeline-stage",
                            "num-virtual-stages-per-pipeline-rank",
                            "pipeline-model-parallel-layout"}) {
      if (args_.is_set(key)) {
        ways.push_back(key);
      }
    }
    if (ways.size() > 1) {
      error("virtual-stages",
            ways[1],
            fmt::format("--{} says the virtual stages too", ways[0]),
            "remove one of the two");
    }
  }

  void count_extra() {
    pipeline_.counted = fmt::format("{} layers", pipeline_.layers);
    if (args_.is_on("account-for-embedding-in-pipeline-split")) {
      ++pipeline_.extra;
      pipeline_.counted += " + the embedding";
    }
    if (args_.is_on("account-for-loss-in-pipeline-split")) {
      ++pipeline_.extra;
      pipeline_.counted += " + the loss";
    }
  }

  void judge_split() {
    if (is_uneven()) {
      judge_uneven();
      return;
    }
    if (may_be_uneven()) {
      return;
    }
    const int64_t counted = saturating_add(pipeline_.layers, pipeline_.extra);
    if (counted % pipeline_.pp != 0) {
      error(
          "stages-fit",
          pipeline_.pp > 1 && args_.is_set("pipeline-model-parallel-size")
              ? "pipeline-model-parallel-size"
              : "num-layers",
          fmt::format("{}{} do not split over {} stages",
                      pipeline_.counted,
                      pipeline_.extra > 0 ? fmt::format(" = {}", counted) : "",
                      pipeline_.pp),
          fmt::format("use a pp of {}, or say the uneven stages with "
                      "--decoder-first-pipeline-num-layers",
                      one_of(divisors(counted))));
      return;
    }
    judge_chunks(counted / pipeline_.pp);
  }

  // Layers of a stage, the same for all.
  void judge_chunks(int64_t of_stage) {
    const Number per_chunk =
        args_.whole("num-layers-per-virtual-pipeline-stage");
    if (per_chunk && *per_chunk > 0 && of_stage % *per_chunk != 0) {
      error("virtual-stages",
            "num-layers-per-virtual-pipeline-stage",
            fmt::format("{} / {} stages = {} layers, which do not split into "
                        "chunks of {}",
                        pipeline_.counted,
                        pipeline_.pp,
                        of_stage,
                        *per_chunk),
            fmt::format("use {}", one_of(divisors(of_stage))));
    }
    const Number chunks = args_.whole("num-virtual-stages-per-pipeline-rank");
    if (chunks && *chunks > 0 && of_stage % *chunks != 0) {
      error("virtual-stages",
            "num-virtual-stages-per-pipeline-rank",
            fmt::format("{} / {} stages = {} layers, which do not split into "
                        "{} chunks",
                        pipeline_.counted,
                        pipeline_.pp,
                        of_stage,
                        *chunks),
            fmt::format("use {}", one_of(divisors(of_stage))));
    }
  }

  void judge_uneven() {
    const char* at = args_.is_set("decoder-first-pipeline-num-layers")
                         ? "decoder-first-pipeline-num-layers"
                         : "decoder-last-pipeline-num-layers";
    if (pipeline_.extra > 0) {
      error("stages-fit",
            at,
            "it does not go together with "
            "--account-for-embedding-in-pipeline-split and "
            "--account-for-loss-in-pipeline-split",
            "remove those");
      return;
    }
    if (args_.is_set("num-layers-per-virtual-pipeline-stage")) {
      error("virtual-stages",
            "num-layers-per-virtual-pipeline-stage",
            "with uneven stages the chunks are counted, not their layers",
            "use --num-virtual-stages-per-pipeline-rank");
      return;
    }
    const Number first = args_.whole("decoder-first-pipeline-num-layers");
    const Number last = args_.whole("decoder-last-pipeline-num-layers");
    const bool is_known =
        (first || args_.is_off("decoder-first-pipeline-num-layers")) &&
        (last || args_.is_off("decoder-last-pipeline-num-layers"));
    if (is_known && first.value_or(1) > 0 && last.value_or(1) > 0) {
      judge_middle(at, first, last);
    }
  }

  void judge_middle(const char* at, const Number& first, const Number& last) {
    const int64_t stages = pipeline_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    const int64_t layers =
        pipeline_.layers - first.value_or(0) - last.value_or(0);
    const std::string text =
        fmt::format("{} layers{}{} = {} over {} middle stages",
                    pipeline_.layers,
                    first ? fmt::format(" - {}", *first) : "",
                    last ? fmt::format(" - {}", *last) : "",
                    layers,
                    stages);
    if (stages < 0 || layers < 0 || (layers != 0) != (stages != 0)) {
      error("stages-fit",
            at,
            text + ": either both are 0 or neither",
            "change the layers of the first and last stage");
      return;
    }
    if (stages > 0 && layers % stages != 0) {
      error("stages-fit",
            at,
            text + ", which do not split",
            fmt::format("leave a multiple of {} to the middle", stages));
      return;
    }
    judge_uneven_chunks(first, last, stages > 0 ? layers / stages : 0);
  }

  void judge_uneven_chunks(const Number& first,
                           const Number& last,
                           int64_t middle) {
    const Number chunks = args_.whole("num-virtual-stages-per-pipeline-rank");
    if (!chunks || *chunks < 2) {
      return;
    }
    for (const int64_t layers : {first.value_or(0), last.value_or(0), middle}) {
      if (layers % *chunks != 0) {
        error("virtual-stages",
              "num-virtual-stages-per-pipeline-rank",
              fmt::format("a stage of {} layers does not split into {} chunks",
                          layers,
                          *chunks),
              fmt::format("use {}", one_of(divisors(layers))));
        return;
      }
    }
  }

  // Chunks of a stage where they are known: 1 is no interleaving.
  Number num_chunks() const {
    if (const Number chunks =
            args_.whole("num-virtual-stages-per-pipeline-rank")) {
      return chunks;
    }
    const Number per_chunk =
        args_.whole("num-layers-per-virtual-pipeline-stage");
    const int64_t counted = saturating_add(pipeline_.layers, pipeline_.extra);
    if (!per_chunk || *per_chunk < 1 || counted == 0) {
      return std::nullopt;
    }
    return counted / pipeline_.pp / *per_chunk;
  }

  const char* chunks_key() const {
    return args_.is_set("num-virtual-stages-per-pipeline-rank")
               ? "num-virtual-stages-per-pipeline-rank"
               : "num-layers-per-virtual-pipeline-stage";
  }

  void check_interleaving(const Number& chunks, const char* key) {
    if (!chunks || *chunks < 2) {
      return;
    }
    const bool overlaps = !args_.is_on("no-overlap-p2p-communication");
    const int64_t least = overlaps ? 2 : 3;
    if (pipeline_.pp < least) {
      error("virtual-stages",
            key,
            overlaps
                ? fmt::format("{} chunks a stage need a pipeline, and pp is 1",
                              *chunks)
                : fmt::format("while messages do not overlap an "
                              "interleaved pipeline needs 3 stages, and pp is "
                              "{}: two stages would send and receive twice in "
                              "one batch",
                              pipeline_.pp),
            overlaps ? "use a --pipeline-model-parallel-size above 1"
                     : "remove --no-overlap-p2p-communication");
      return;
    }
    check_microbatches(pipeline_.pp, key);
  }

  // The interleaved schedule takes microbatches in groups of pp or more.
  void check_microbatches(int64_t pp, const char* key) {
    const Number micro = args_.whole("micro-batch-size");
    const Number global = args_.whole("global-batch-size");
    const Number replicas = num_replicas(pp);
    if (!micro || !global || !replicas || *micro < 1 || *global < 1 ||
        *micro > kMaxLayers || *replicas < 1 ||
        *global % saturating_multiply(*micro, *replicas) != 0) {
      return;
    }
    const int64_t count = *global / saturating_multiply(*micro, *replicas);
    const Number asked =
        args_.whole("microbatch-group-size-per-virtual-pipeline-stage");
    const int64_t group = asked.value_or(pp);
    const char* at =
        asked ? "microbatch-group-size-per-virtual-pipeline-stage" : key;
    const std::string microbatches = fmt::format(
        "global batch {} / (micro batch {} * dp {}) = {} "
        "microbatches",
        *global,
        *micro,
        *replicas,
        count);
    if (group < pp || group > count) {
      findings_.error(
          "virtual-stages",
          at,
          fmt::format("{}, and the interleaved schedule takes {} at a time, "
                      "from pp {} up to all of them",
                      microbatches,
                      group,
                      pp),
          fmt::format("use a --global-batch-size of at least {}",
                      saturating_product({*micro, *replicas, pp})),
          Effect::kFailsLater);
      return;
    }
    const int64_t rest = count % group;
    if (rest > 0 && rest < pp) {
      findings_.error(
          "virtual-stages",
          at,
          fmt::format("{}, and {} are left over in the last group of {}: it "
                      "must be 0, or at least pp {}",
                      microbatches,
                      rest,
                      group,
                      pp),
          fmt::format("use a --global-batch-size that is a multiple of {}",
                      saturating_product({*micro, *replicas, group})),
          Effect::kFailsLater);
    }
  }

  Number num_replicas(int64_t pp) const {
    const Number ranks = layout_of(findings_).world;
    const Number tp = args_.whole("tensor-model-parallel-size");
    const Number cp = args_.whole("context-parallel-size");
    if (!ranks || !tp || !cp || *tp < 1 || *cp < 1 || *tp > kMaxLayers ||
        *cp > kMaxLayers) {
      return std::nullopt;
    }
    const int64_t rest = saturating_product({*tp, *cp, pp});
    return *ranks % rest == 0 ? Number(*ranks / rest) : std::nullopt;
  }

  ForeignFindings& findings_;
  const MegatronArguments& args_;
  Pipeline pipeline_;
};

}  // namespace

void check_megatron_pipeline(ForeignFindings& findings,
                             const MegatronArguments& args) {
  PipelineJudge(findings, args).judge();
}

}  // namespace triax
