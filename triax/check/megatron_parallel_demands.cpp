// SPDX-License-Identifier: Apache-2.0
#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Args = MegatronArguments;

bool at_least(const Args& args, const char* key, int64_t least) {
  return args.whole(key).value_or(least - 1) >= least;
}

// validate_args of core_v0.19.2 and the configs' __post_init__, in its order:
// sharding over dp, overlap, FSDP, checkpoint formats, context and pipeline.
constexpr MegatronDemand kDemands[] = {
    {"refused-combination",
     "overlap-param-gather",
     [](const Args& a) {
       return a.is_on("overlap-param-gather") &&
              a.is_off("use-distributed-optimizer") &&
              a.is_off("use-megatron-fsdp") &&
              !a.is_text("optimizer", "dist_muon");
     },
     "gathering parameters in the forward pass works only with the distributed "
     "optimizer or Megatron-FSDP",
     "add --use-distributed-optimizer"},
    {"refused-combination",
     "overlap-param-gather",
     [](const Args& a) {
       return a.is_on("overlap-param-gather") &&
              a.is_off("overlap-grad-reduce");
     },
     "it must go together with --overlap-grad-reduce",
     "add --overlap-grad-reduce"},
    {"refused-combination",
     "overlap-param-gather-with-optimizer-step",
     [](const Args& a) {
       return a.is_on("overlap-param-gather-with-optimizer-step") &&
              (a.is_off("use-distributed-optimizer") ||
               a.is_off("overlap-param-gather"));
     },
     "it works only with the distributed optimizer and --overlap-param-gather",
     "add --use-distributed-optimizer and --overlap-param-gather"},
    {"refused-combination",
     "overlap-param-gather-with-optimizer-step",
     [](const Args& a) {
       return a.is_on("overlap-param-gather-with-optimizer-step") &&
              a.is_off("num-layers-per-virtual-pipeline-stage") &&
              a.is_off("num-virtual-stages-per-pipeline-rank") &&
              a.is_off("pipeline-model-parallel-layout") &&
              a.is_off("hybrid-layer-pattern");
     },
     "it works only with an interleaved pipeline",
     "add --num-virtual-stages-per-pipeline-rank, or remove it"},
    {"refused-combination",
     "overlap-param-gather-with-optimizer-step",
     [](const Args& a) {
       const auto format = a.text("ckpt-format");
       return a.is_on("overlap-param-gather-with-optimizer-step") && format &&
              *format != "torch";
     },
     "it does not work with distributed checkpoints, the default",
     "add --ckpt-format torch"},
    {"refused-combination",
     "save-params-interval",
     [](const Args& a) {
       return a.is_set("save-params-interval") && a.is_set("save") &&
              a.is_on("overlap-param-gather");
     },
     "parameters are not saved while --overlap-param-gather moves them",
     "remove one of the two"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") &&
              at_least(a, "pipeline-model-parallel-size", 2);
     },
     "PyTorch's FSDP2 does not work with pipeline parallelism here",
     "use --pipeline-model-parallel-size 1"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") &&
              at_least(a, "expert-model-parallel-size", 2);
     },
     "PyTorch's FSDP2 does not work with expert parallelism here",
     "use --expert-model-parallel-size 1"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") &&
              a.is_on("use-distributed-optimizer");
     },
     "PyTorch's FSDP2 shards the states itself and excludes the distributed "
     "optimizer",
     "remove --use-distributed-optimizer"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") &&
              a.is_off("no-gradient-accumulation-fusion");
     },
     "PyTorch's FSDP2 excludes the fused gradient accumulation, the default",
     "add --no-gradient-accumulation-fusion"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       const auto format = a.text("ckpt-format");
       return a.is_on("use-torch-fsdp2") && format && *format != "torch_dist" &&
              *format != "torch_dcp";
     },
     "PyTorch's FSDP2 saves only as torch_dist or torch_dcp",
     "use --ckpt-format torch_dist"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") &&
              a.is_off("untie-embeddings-and-output-weights");
     },
     "PyTorch's FSDP2 excludes tied embeddings, the default",
     "add --untie-embeddings-and-output-weights"},
    {"refused-combination",
     "use-torch-fsdp2",
     [](const Args& a) {
       return a.is_on("use-torch-fsdp2") && a.is_on("fp16");
     },
     "PyTorch's FSDP2 does not work with fp16 here",
     "use --bf16"},
    {"refused-combination",
     "use-megatron-fsdp",
     [](const Args& a) {
       const auto optimizer = a.text("optimizer");
       return a.is_on("use-megatron-fsdp") && optimizer &&
              *optimizer != "adam" && *optimizer != "sgd";
     },
     "Megatron-FSDP knows the optimizers adam and sgd",
     "use --optimizer adam"},
    {"refused-combination",
     "use-megatron-fsdp",
     [](const Args& a) {
       const auto format = a.text("ckpt-format");
       return a.is_on("use-megatron-fsdp") && format &&
              *format != "fsdp_dtensor";
     },
     "Megatron-FSDP saves only as fsdp_dtensor, and the default is torch_dist",
     "add --ckpt-format fsdp_dtensor"},
    {"refused-combination",
     "use-megatron-fsdp",
     [](const Args& a) {
       return a.is_on("use-megatron-fsdp") &&
              (a.is_on("moe-single-grouped-weight") ||
               a.is_on("moe-single-grouped-bias"));
     },
     "Megatron-FSDP does not hold single grouped expert parameters",
     "remove --moe-single-grouped-weight and --moe-single-grouped-bias"},
    {"refused-combination",
     "check-weight-hash-across-dp-replicas-interval",
     [](const Args& a) {
       return a.is_on("use-megatron-fsdp") &&
              a.is_set("check-weight-hash-across-dp-replicas-interval") &&
              a.is_text("data-parallel-sharding-strategy",
                        "optim_grads_params");
     },
     "there are no replicas to compare when Megatron-FSDP shards the "
     "parameters",
     "remove it, or use --data-parallel-sharding-strategy optim_grads"},
    {"refused-combination",
     "init-model-with-meta-device",
     [](const Args& a) {
       return a.is_on("use-megatron-fsdp") &&
              a.is_on("init-model-with-meta-device") &&
              a.is_text("data-parallel-sharding-strategy", "no_shard");
     },
     "weights on the meta device have no use where nothing is sharded",
     "remove it, or shard with --data-parallel-sharding-strategy"},
    {"refused-combination",
     "fsdp-manual-registration",
     [](const Args& a) {
       return a.is_on("fsdp-manual-registration") &&
              (a.is_off("use-megatron-fsdp") || a.is_off("use-nccl-ub"));
     },
     "it works only with --use-megatron-fsdp and --use-nccl-ub",
     "add both, or remove it"},
    {"refused-combination",
     "ckpt-format",
     [](const Args& a) {
       return a.is_text("ckpt-format", "fsdp_dtensor") &&
              a.is_off("use-megatron-fsdp");
     },
     "fsdp_dtensor is the format of Megatron-FSDP alone",
     "add --use-megatron-fsdp, or use torch_dist"},
    {"refused-combination",
     "ckpt-format",
     [](const Args& a) {
       return a.is_text("ckpt-format", "torch_dcp") &&
              (a.is_off("use-torch-fsdp2") ||
               at_least(a, "tensor-model-parallel-size", 2) ||
               at_least(a, "pipeline-model-parallel-size", 2));
     },
     "torch_dcp is the format of PyTorch's FSDP2 without tp and pp",
     "use --ckpt-format torch_dist"},
    {"refused-combination",
     "ckpt-format",
     [](const Args& a) {
       return a.is_text("ckpt-format", "torch") &&
              a.is_on("disable-gloo-process-groups") &&
              a.is_on("use-distributed-optimizer");
     },
     "without Gloo groups the distributed optimizer cannot be saved as torch",
     "use --ckpt-format torch_dist"},
    {"refused-combination",
     "verify-integrity",
     [](const Args& a) {
       const auto format = a.text("ckpt-format");
       return a.is_on("verify-integrity") && format && *format != "torch_dist";
     },
     "checksums are written only with --ckpt-format torch_dist",
     "use --ckpt-format torch_dist"},
    {"refused-combination",
     "ddp-num-buckets",
     [](const Args& a) {
       return a.is_set("ddp-num-buckets") && a.is_set("ddp-bucket-size");
     },
     "--ddp-bucket-size says the same in another way",
     "remove one of the two"},
    {"refused-combination",
     "use-precision-aware-optimizer",
     [](const Args& a) {
       const auto optimizer = a.text("optimizer");
       return a.is_on("use-precision-aware-optimizer") &&
              ((a.is_off("use-distributed-optimizer") &&
                a.is_off("use-megatron-fsdp")) ||
               (optimizer && *optimizer != "adam"));
     },
     "it works only with adam and the distributed optimizer",
     "add --use-distributed-optimizer and use --optimizer adam"},
    {"refused-combination",
     "main-grads-dtype",
     [](const Args& a) {
       const auto type = a.text("main-grads-dtype");
       return type && *type != "fp32" &&
              a.is_off("use-precision-aware-optimizer");
     },
     "gradients are kept in another type only by the precision-aware optimizer",
     "add --use-precision-aware-optimizer"},
    {"refused-combination",
     "main-params-dtype",
     [](const Args& a) {
       const auto type = a.text("main-params-dtype");
       return type && *type != "fp32" &&
              a.is_off("use-precision-aware-optimizer");
     },
     "main weights are kept in another type only by the precision-aware "
     "optimizer",
     "add --use-precision-aware-optimizer"},
    {"refused-combination",
     "exp-avg-dtype",
     [](const Args& a) {
       const auto type = a.text("exp-avg-dtype");
       return type && *type != "fp32" &&
              a.is_off("use-precision-aware-optimizer");
     },
     "moments are kept in another type only by the precision-aware optimizer",
     "add --use-precision-aware-optimizer"},
    {"refused-combination",
     "exp-avg-sq-dtype",
     [](const Args& a) {
       const auto type = a.text("exp-avg-sq-dtype");
       return type && *type != "fp32" &&
              a.is_off("use-precision-aware-optimizer");
     },
     "moments are kept in another type only by the precision-aware optimizer",
     "add --use-precision-aware-optimizer"},
    {"refused-combination",
     "optimizer-cpu-offload",
     [](const Args& a) {
       return a.is_on("optimizer-cpu-offload") &&
              a.is_off("use-precision-aware-optimizer");
     },
     "the optimizer on the host reuses the precision-aware optimizer",
     "add --use-precision-aware-optimizer"},
    {"refused-combination",
     "optimizer-cpu-offload",
     [](const Args& a) {
       const auto recipe = a.text("fp8-recipe");
       return a.is_on("optimizer-cpu-offload") && a.is_on("fp8-param-gather") &&
              recipe && *recipe != "delayed";
     },
     "with --fp8-param-gather the optimizer on the host takes only the delayed "
     "recipe",
     "use --fp8-recipe delayed"},
    {"refused-combination",
     "optimizer",
     [](const Args& a) {
       const auto optimizer = a.text("optimizer");
       return optimizer && *optimizer != "adam" && *optimizer != "sgd" &&
              a.is_on("use-torch-fsdp2");
     },
     "this optimizer does not work with PyTorch's FSDP2",
     "use --optimizer adam"},
    {"refused-combination",
     "optimizer",
     [](const Args& a) {
       const auto optimizer = a.text("optimizer");
       const auto format = a.text("ckpt-format");
       return optimizer && *optimizer != "adam" && *optimizer != "sgd" &&
              format && *format != "torch" && *format != "torch_dist";
     },
     "this optimizer saves only as torch or torch_dist",
     "use --ckpt-format torch_dist"},
    {"refused-combination",
     "tp-comm-overlap",
     [](const Args& a) {
       return a.is_on("tp-comm-overlap") &&
              (a.is_off("sequence-parallel") ||
               a.whole("tensor-model-parallel-size") == 1);
     },
     "its collectives overlap with the products only under sequence "
     "parallelism, which tp 1 turns off",
     "add --sequence-parallel, with a tp above 1"},
    {"refused-combination",
     "hybrid-context-parallel",
     [](const Args& a) {
       return a.is_on("hybrid-context-parallel") &&
              at_least(a, "pipeline-model-parallel-size", 2);
     },
     "hybrid context parallelism does not work with pipeline parallelism",
     "use --pipeline-model-parallel-size 1"},
    {"refused-combination",
     "hybrid-context-parallel",
     [](const Args& a) {
       return a.is_on("hybrid-context-parallel") &&
              a.is_off("calculate-per-token-loss");
     },
     "hybrid context parallelism needs the loss counted by tokens",
     "add --calculate-per-token-loss"},
    {"refused-combination",
     "hybrid-context-parallel",
     [](const Args& a) {
       return a.is_on("hybrid-context-parallel") &&
              a.is_on("use-megatron-fsdp");
     },
     "hybrid context parallelism does not work with Megatron-FSDP",
     "remove one of the two"},
    {"refused-combination",
     "defer-embedding-wgrad-compute",
     [](const Args& a) {
       return a.is_on("defer-embedding-wgrad-compute") &&
              a.whole("pipeline-model-parallel-size") == 1;
     },
     "the embedding's gradient is deferred into a pipeline's cool-down, and pp "
     "is 1",
     "remove it"},
    {"refused-combination",
     "defer-embedding-wgrad-compute",
     [](const Args& a) {
       return a.is_on("defer-embedding-wgrad-compute") &&
              a.is_on("no-gradient-accumulation-fusion");
     },
     "deferring needs the fused gradient accumulation",
     "remove --no-gradient-accumulation-fusion"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       return a.is_on("overlap-moe-expert-parallel-comm") &&
              a.whole("expert-model-parallel-size") == 1;
     },
     "there is nothing to overlap without expert parallelism",
     "use an --expert-model-parallel-size above 1"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       return a.is_on("overlap-moe-expert-parallel-comm") &&
              at_least(a, "pipeline-model-parallel-size", 2) &&
              a.is_off("num-layers-per-virtual-pipeline-stage") &&
              a.is_off("num-virtual-stages-per-pipeline-rank") &&
              a.is_off("pipeline-model-parallel-layout") &&
              a.is_off("hybrid-layer-pattern");
     },
     "with pp above 1 it needs an interleaved pipeline",
     "add --num-virtual-stages-per-pipeline-rank"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       const auto kind = a.text("moe-token-dispatcher-type");
       return a.is_on("overlap-moe-expert-parallel-comm") && kind &&
              *kind != "alltoall" && *kind != "flex";
     },
     "it works only with the dispatchers alltoall and flex",
     "use --moe-token-dispatcher-type alltoall"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       return a.is_on("overlap-moe-expert-parallel-comm") &&
              (a.is_text("recompute-granularity", "full") ||
               a.is_set("recompute-method") ||
               a.is_set("recompute-num-layers"));
     },
     "it does not work with full recomputation",
     "use --recompute-granularity selective"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       return a.is_on("overlap-moe-expert-parallel-comm") &&
              a.is_on("moe-shared-expert-overlap");
     },
     "--moe-shared-expert-overlap fills the same gap",
     "remove --moe-shared-expert-overlap"},
    {"refused-combination",
     "overlap-moe-expert-parallel-comm",
     [](const Args& a) {
       return a.is_on("overlap-moe-expert-parallel-comm") && a.is_off("bf16") &&
              a.is_off("fp16");
     },
     "it works only in bf16 or fp16",
     "add --bf16"},
    {"refused-combination",
     "delay-wgrad-compute",
     [](const Args& a) {
       return a.is_on("delay-wgrad-compute") &&
              a.is_off("overlap-moe-expert-parallel-comm");
     },
     "weight gradients are delayed only to overlap the experts' communication",
     "add --overlap-moe-expert-parallel-comm"},
};

}  // namespace

std::span<const MegatronDemand> megatron_parallel_demands() {
  return kDemands;
}

}  // namespace triax
