// SPDX-License-Identifier: Apache-2.0
#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Args = MegatronArguments;

bool is_positive(const Args& args, const char* key) {
  return args.whole(key).value_or(0) > 0;
}

bool trains_by_steps(const Args& args) {
  return is_positive(args, "train-iters") && args.is_off("skip-train");
}

bool trains_by_samples(const Args& args) {
  return is_positive(args, "train-samples") && args.is_off("skip-train");
}

bool is_not_multiple(const Args& args, const char* key, const char* of) {
  const auto number = args.whole(key);
  const auto unit = args.whole(of);
  return number && unit && *unit > 0 && *number % *unit != 0;
}

// validate_args of core_v0.19.2: the length of the run, the learning rate,
// saving, data.
constexpr MegatronDemand kDemands[] = {
    {"train-length",
     "train-samples",
     [](const Args& a) {
       return trains_by_steps(a) && a.is_set("train-samples");
     },
     "--train-iters says the run's length too",
     "remove one of the two"},
    {"train-length",
     "lr-decay-samples",
     [](const Args& a) {
       return trains_by_steps(a) && is_positive(a, "lr-decay-samples");
     },
     "the run's length is in steps (--train-iters), and its decay in samples",
     "use --lr-decay-iters"},
    {"train-length",
     "lr-warmup-samples",
     [](const Args& a) {
       return trains_by_steps(a) && is_positive(a, "lr-warmup-samples");
     },
     "the run's length is in steps (--train-iters), and its warm-up in samples",
     "use --lr-warmup-iters"},
    {"train-length",
     "lr-decay-iters",
     [](const Args& a) {
       return trains_by_samples(a) && !a.is_set("train-iters") &&
              is_positive(a, "lr-decay-iters");
     },
     "the run's length is in samples (--train-samples), and its decay in steps",
     "use --lr-decay-samples"},
    {"train-length",
     "lr-warmup-iters",
     [](const Args& a) {
       return trains_by_samples(a) && !a.is_set("train-iters") &&
              is_positive(a, "lr-warmup-iters");
     },
     "the run's length is in samples (--train-samples), and its warm-up in "
     "steps",
     "use --lr-warmup-samples"},
    {"train-length",
     "lr-warmup-fraction",
     [](const Args& a) {
       return a.is_set("lr-warmup-fraction") &&
              ((trains_by_steps(a) && is_positive(a, "lr-warmup-iters")) ||
               (trains_by_samples(a) && is_positive(a, "lr-warmup-samples")));
     },
     "the warm-up's length is given twice",
     "remove --lr-warmup-fraction"},
    {"refused-combination",
     "step-batch-size-schedule",
     [](const Args& a) {
       return a.is_set("step-batch-size-schedule") &&
              a.is_set("global-batch-size");
     },
     "--global-batch-size says one batch size for the whole run",
     "remove --global-batch-size"},
    {"refused-combination",
     "step-batch-size-schedule",
     [](const Args& a) {
       return a.is_set("step-batch-size-schedule") &&
              a.is_on("decrease-batch-size-if-needed");
     },
     "a schedule of batch sizes is never decreased",
     "remove --decrease-batch-size-if-needed"},
    {"lr-order",
     "min-lr",
     [](const Args& a) {
       const auto least = a.number("min-lr");
       const auto most = a.number("lr");
       return least && most && *least > *most && *most >= 0;
     },
     "it is larger than --lr",
     "use a tenth of --lr"},
    {"lr-order",
     "lr-warmup-init",
     [](const Args& a) {
       const auto first = a.number("lr-warmup-init");
       const auto most = a.number("lr");
       return first && most && *first > *most && *most >= 0;
     },
     "the warm-up begins above --lr",
     "use 0"},
    {"refused-combination",
     "lr-decay-style",
     [](const Args& a) {
       return a.is_text("lr-decay-style", "WSD") &&
              a.is_off("lr-wsd-decay-iters") &&
              a.is_off("lr-wsd-decay-samples") && a.is_off("skip-train");
     },
     "WSD needs the length of its decay",
     "add --lr-wsd-decay-iters, or --lr-wsd-decay-samples"},
    {"refused-combination",
     "weight-decay-incr-style",
     [](const Args& a) {
       const auto style = a.text("weight-decay-incr-style");
       return style && *style != "constant" &&
              (a.is_off("start-weight-decay") || a.is_off("end-weight-decay"));
     },
     "a weight decay that changes needs both ends",
     "add --start-weight-decay and --end-weight-decay"},
    {"refused-combination",
     "start-weight-decay",
     [](const Args& a) {
       return a.is_set("start-weight-decay") &&
              a.is_text("weight-decay-incr-style", "constant");
     },
     "the weight decay is constant, --weight-decay",
     "add --weight-decay-incr-style linear, or remove it"},
    {"refused-combination",
     "end-weight-decay",
     [](const Args& a) {
       return a.is_set("end-weight-decay") &&
              a.is_text("weight-decay-incr-style", "constant");
     },
     "the weight decay is constant, --weight-decay",
     "add --weight-decay-incr-style linear, or remove it"},
    {"refused-combination",
     "encoder-num-layers",
     [](const Args& a) {
       return a.is_set("encoder-num-layers") && a.is_set("num-layers");
     },
     "--num-layers says the same",
     "remove one of the two"},
    {"refused-combination",
     "encoder-seq-length",
     [](const Args& a) {
       return a.is_set("encoder-seq-length") && a.is_set("seq-length");
     },
     "--seq-length says the same",
     "remove one of the two"},
    {"sequence-too-long",
     "decoder-seq-length",
     [](const Args& a) {
       const auto length = a.whole("decoder-seq-length");
       const auto most = a.whole("max-position-embeddings");
       return length && most && *length > *most;
     },
     "it is longer than --max-position-embeddings",
     "raise --max-position-embeddings"},
    // saving
    {"refused-combination",
     "save",
     [](const Args& a) {
       return a.is_set("save") && a.is_off("save-interval");
     },
     "a run that saves must say how often",
     "add --save-interval 1000"},
    {"refused-combination",
     "save-retain-interval",
     [](const Args& a) {
       return a.is_set("save") &&
              is_not_multiple(a, "save-retain-interval", "save-interval");
     },
     "it must be a multiple of --save-interval",
     "use a multiple of --save-interval"},
    {"refused-combination",
     "log-memory-interval",
     [](const Args& a) {
       return is_not_multiple(a, "log-memory-interval", "log-interval");
     },
     "it must be a multiple of --log-interval",
     "use a multiple of --log-interval"},
    {"refused-combination",
     "load-main-params-from-ckpt",
     [](const Args& a) {
       return a.is_on("load-main-params-from-ckpt") &&
              a.is_off("no-load-optim") && a.is_off("skip-train");
     },
     "the main weights are loaded with the optimizer, if that is loaded",
     "add --no-load-optim"},
    {"refused-combination",
     "override-ckpt-iteration",
     [](const Args& a) {
       return a.is_set("override-ckpt-iteration") && a.is_on("finetune");
     },
     "--finetune begins at step 0 anyway",
     "remove one of the two"},
    {"refused-combination",
     "non-persistent-ckpt-type",
     [](const Args& a) {
       return a.is_text("non-persistent-ckpt-type", "in_memory");
     },
     "only global and local are built",
     "use local"},
    {"refused-combination",
     "non-persistent-ckpt-type",
     [](const Args& a) {
       return a.is_text("non-persistent-ckpt-type", "local") &&
              a.is_off("non-persistent-local-ckpt-dir");
     },
     "local checkpoints need a folder",
     "add --non-persistent-local-ckpt-dir"},
    {"refused-combination",
     "replication",
     [](const Args& a) {
       return a.is_on("replication") && (a.is_off("replication-jump") ||
                                         a.is_off("non-persistent-ckpt-type"));
     },
     "replicas are of local checkpoints, some ranks away",
     "add --non-persistent-ckpt-type local and --replication-jump"},
    {"refused-combination",
     "ckpt-convert-format",
     [](const Args& a) {
       return a.is_set("ckpt-convert-format") &&
              (a.is_off("ckpt-convert-save") || a.is_off("load"));
     },
     "a conversion needs what to load and where to save",
     "add --load and --ckpt-convert-save"},
    {"refused-combination",
     "moe-use-upcycling",
     [](const Args& a) {
       return a.is_on("moe-use-upcycling") && a.is_off("save");
     },
     "upcycling ends in a checkpoint",
     "add --save and --save-interval"},
    {"refused-combination",
     "logits-save-dir",
     [](const Args& a) {
       return a.is_set("logits-save-dir") &&
              (a.is_off("logits-save-top-k") || a.is_off("async-save") ||
               a.is_off("use-persistent-ckpt-worker"));
     },
     "logits are saved in the checkpoint's queue, the top ones only",
     "add --logits-save-top-k, --async-save and --use-persistent-ckpt-worker"},
    // data
    {"refused-combination",
     "mock-data",
     [](const Args& a) {
       return a.is_on("mock-data") &&
              (a.is_set("data-path") || a.is_set("train-data-path") ||
               a.is_set("valid-data-path") || a.is_set("test-data-path"));
     },
     "the data come from one place",
     "remove --mock-data, or the paths"},
    {"refused-combination",
     "train-data-path",
     [](const Args& a) {
       return a.is_set("train-data-path") && a.is_set("data-path");
     },
     "the data come from one place",
     "remove --data-path, or give all three parts' paths"},
    {"refused-combination",
     "data-args-path",
     [](const Args& a) {
       return a.is_set("data-args-path") && a.is_set("data-path");
     },
     "--data-path says the same",
     "remove one of the two"},
    {"refused-combination",
     "per-split-data-args-path",
     [](const Args& a) {
       return a.is_set("per-split-data-args-path") &&
              (a.is_set("train-data-path") || a.is_set("valid-data-path") ||
               a.is_set("test-data-path"));
     },
     "--train-data-path and its kin say the same",
     "remove one of the two"},
    {"refused-combination",
     "fim-data",
     [](const Args& a) { return a.is_on("fim-data") && a.is_on("mock-data"); },
     "mock data hold nothing to fill in",
     "remove --mock-data"},
    // graphs and inference
    {"refused-combination",
     "cuda-graph-impl",
     [](const Args& a) {
       return a.is_text("cuda-graph-impl", "full_iteration") &&
              a.is_off("no-check-for-nan-in-loss-and-grad") &&
              (a.is_off("fp16") || a.is_set("loss-scale"));
     },
     "a graph of the whole step cannot look for NaN",
     "add --no-check-for-nan-in-loss-and-grad"},
    {"refused-combination",
     "cuda-graph-modules",
     [](const Args& a) {
       return a.is_text("cuda-graph-impl", "full_iteration") &&
              a.is_set("cuda-graph-modules");
     },
     "a graph of the whole step has no modules",
     "remove it"},
    {"refused-combination",
     "recompute-granularity",
     [](const Args& a) {
       const auto graph = a.text("cuda-graph-impl");
       return a.is_text("recompute-granularity", "full") && graph &&
              *graph != "none" && *graph != "full_iteration" &&
              a.is_off("recompute-activations");
     },
     "full recomputation works only with graphs of the whole step",
     "use --recompute-granularity selective"},
    {"refused-combination",
     "inference-batch-times-seqlen-threshold",
     [](const Args& a) {
       return a.whole("inference-batch-times-seqlen-threshold").value_or(-1) >
                  -1 &&
              a.whole("pipeline-model-parallel-size") == 1;
     },
     "batches are cut into microbatches only for a pipeline",
     "remove it"},
};

// What is accepted and changed, or passed over, without an error. A note
// where good scripts have it for other versions or layouts.
constexpr MegatronDemand kSilent[] = {
    {"no-effect",
     "sequence-parallel",
     [](const Args& a) {
       return a.is_on("sequence-parallel") &&
              a.whole("tensor-model-parallel-size") == 1;
     },
     "it is switched off, for tp is 1",
     "remove it, or use a tp above 1",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "num-query-groups",
     [](const Args& a) {
       const auto groups = a.whole("num-query-groups");
       const auto heads = a.whole("num-attention-heads");
       return a.is_set("num-query-groups") && groups && groups != heads &&
              a.is_off("group-query-attention") &&
              a.is_off("multi-latent-attention");
     },
     "it is read only under --group-query-attention: every head keeps its own "
     "keys and values",
     "add --group-query-attention",
     Severity::kWarning,
     Effect::kSilentlyDifferent},
    {"no-effect",
     "ddp-bucket-size",
     [](const Args& a) {
       return a.is_set("ddp-bucket-size") && a.is_off("overlap-grad-reduce");
     },
     "without --overlap-grad-reduce there is one bucket, however large",
     "add --overlap-grad-reduce, or remove it",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "ddp-num-buckets",
     [](const Args& a) {
       return a.is_set("ddp-num-buckets") && a.is_off("overlap-grad-reduce");
     },
     "without --overlap-grad-reduce there is one bucket, however large",
     "add --overlap-grad-reduce, or remove it",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "recompute-granularity",
     [](const Args& a) {
       return a.is_on("recompute-activations") &&
              a.is_text("recompute-granularity", "full");
     },
     "--recompute-activations replaces it by selective",
     "remove --recompute-activations",
     Severity::kWarning,
     Effect::kSilentlyDifferent},
    {"no-effect",
     "recompute-method",
     [](const Args& a) {
       return a.is_set("recompute-method") &&
              a.is_off("recompute-granularity") &&
              a.is_off("recompute-activations") &&
              a.is_off("checkpoint-activations");
     },
     "nothing is recomputed without --recompute-granularity",
     "add --recompute-granularity full",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "recompute-num-layers",
     [](const Args& a) {
       return a.is_set("recompute-num-layers") &&
              a.is_off("recompute-method") &&
              a.is_off("recompute-granularity") &&
              a.is_off("recompute-activations") &&
              a.is_off("checkpoint-activations");
     },
     "nothing is recomputed without --recompute-granularity",
     "add --recompute-granularity full and --recompute-method uniform",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "recompute-modules",
     [](const Args& a) {
       return a.is_set("recompute-modules") &&
              ((a.is_off("recompute-granularity") &&
                a.is_off("recompute-activations") &&
                a.is_off("moe-layer-recompute")) ||
               a.is_text("recompute-granularity", "full"));
     },
     "modules are recomputed one by one only under --recompute-granularity "
     "selective",
     "use --recompute-granularity selective",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "offload-modules",
     [](const Args& a) {
       return a.is_set("offload-modules") &&
              a.is_off("fine-grained-activation-offloading");
     },
     "nothing goes to the host without --fine-grained-activation-offloading",
     "add --fine-grained-activation-offloading",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "optimizer-offload-fraction",
     [](const Args& a) {
       // A fork with a policy of its own reads the fraction there.
       return a.is_set("optimizer-offload-fraction") &&
              a.is_off("optimizer-cpu-offload") &&
              !a.is_set("optimizer-offload-policy");
     },
     "nothing goes to the host without --optimizer-cpu-offload",
     "add --optimizer-cpu-offload and --use-precision-aware-optimizer",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "data-parallel-sharding-strategy",
     [](const Args& a) {
       return a.is_set("data-parallel-sharding-strategy") &&
              a.is_off("use-megatron-fsdp");
     },
     "it is read only by Megatron-FSDP",
     "add --use-megatron-fsdp",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "no-position-embedding",
     [](const Args& a) {
       return a.is_on("no-position-embedding") &&
              (a.is_text("position-embedding-type", "rope") ||
               a.is_on("use-rotary-position-embeddings"));
     },
     "rope adds no embedding of positions anyway, and stays on",
     "remove it; --position-embedding-type none would switch rope off",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "initial-loss-scale",
     [](const Args& a) {
       return a.is_set("initial-loss-scale") && a.is_off("fp16");
     },
     "the loss is scaled only in fp16",
     "remove it",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "loss-scale",
     [](const Args& a) {
       return a.is_set("loss-scale") && a.is_off("fp16") && a.is_on("bf16");
     },
     "the loss is scaled only in fp16",
     "remove it",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "no-overlap-p2p-communication",
     [](const Args& a) {
       return a.is_on("no-overlap-p2p-communication") &&
              a.is_off("num-layers-per-virtual-pipeline-stage") &&
              a.is_off("num-virtual-stages-per-pipeline-rank") &&
              a.is_off("pipeline-model-parallel-layout") &&
              a.is_off("hybrid-layer-pattern");
     },
     "without an interleaved pipeline nothing of it overlaps anyway",
     "remove it",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "async-save",
     [](const Args& a) {
       const auto format = a.text("ckpt-format");
       return a.is_on("async-save") && format && *format != "torch" &&
              a.is_off("use-persistent-ckpt-worker");
     },
     "core_v0.19.2 switches it off without --use-persistent-ckpt-worker",
     "add --use-persistent-ckpt-worker",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "replication-jump",
     [](const Args& a) {
       return a.is_set("replication-jump") && a.is_off("replication");
     },
     "it is passed over without --replication",
     "add --replication",
     Severity::kWarning,
     Effect::kIgnored},
    {"no-effect",
     "use-distributed-optimizer",
     [](const Args& a) {
       return a.is_on("freeze-all-layers") &&
              a.is_on("use-distributed-optimizer");
     },
     "--freeze-all-layers switches it off",
     "remove it",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "num-layers",
     [](const Args& a) {
       return a.is_set("num-layers") && a.is_set("hybrid-layer-pattern") &&
              a.whole("num-layers") && a.text("hybrid-layer-pattern");
     },
     "the layers are those of --hybrid-layer-pattern",
     "remove it",
     Severity::kNote,
     Effect::kIgnored},
    {"no-effect",
     "expert-model-parallel-size",
     [](const Args& a) {
       return a.whole("expert-model-parallel-size").value_or(1) > 1 &&
              a.whole("tensor-model-parallel-size").value_or(1) > 1 &&
              a.is_set("num-experts") && a.is_off("sequence-parallel");
     },
     "Megatron-LM warns that training with ep and tp needs sequence "
     "parallelism, and goes on",
     "add --sequence-parallel",
     Severity::kWarning,
     Effect::kFailsLater},
    {"no-effect",
     "moe-permute-fusion-into-hybridep",
     [](const Args& a) {
       return a.is_on("moe-permute-fusion-into-hybridep") &&
              a.is_off("moe-flex-dispatcher-backend");
     },
     "it is read only by the flex dispatcher's backend hybridep",
     "add --moe-flex-dispatcher-backend hybridep",
     Severity::kNote,
     Effect::kIgnored},
};

}  // namespace

std::span<const MegatronDemand> megatron_run_demands() {
  return kDemands;
}
std::span<const MegatronDemand> megatron_silent_changes() {
  return kSilent;
}

}  // namespace triax
