// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Args = MegatronArguments;

bool holds(const Args& args, const char* key, const char* item) {
  const auto items = args.items(key);
  return items && std::find(items->begin(), items->end(), item) != items->end();
}

// validate_args, core_transformer_config_from_args and
// TransformerConfig.__post_init__ of core_v0.19.2: precision, recomputation,
// offload, the layers and experts.
constexpr MegatronDemand kDemands[] = {
    {"precision-conflict",
     "bf16",
     [](const Args& a) { return a.is_on("bf16") && a.is_on("fp16"); },
     "--fp16 is on too",
     "remove one of the two"},
    {"precision-conflict",
     "fp4-format",
     [](const Args& a) {
       return a.is_set("fp4-format") && a.is_set("fp8-format");
     },
     "--fp8-format is on too",
     "remove one of the two"},
    {"refused-combination",
     "fp8-param-gather",
     [](const Args& a) {
       return a.is_on("fp8-param-gather") &&
              a.is_off("use-distributed-optimizer") &&
              a.is_off("use-torch-fsdp2") && a.is_off("use-megatron-fsdp");
     },
     "weights are gathered in fp8 only by the distributed optimizer or FSDP",
     "add --use-distributed-optimizer"},
    {"refused-combination",
     "fp8-param-gather",
     [](const Args& a) {
       return a.is_on("fp8-param-gather") && a.is_off("fp8-format");
     },
     "weights are in fp8 only where the computation is",
     "add --fp8-format hybrid"},
    {"refused-combination",
     "fp4-param-gather",
     [](const Args& a) {
       return a.is_on("fp4-param-gather") && a.is_off("fp4-format");
     },
     "weights are in fp4 only where the computation is",
     "add --fp4-format e2m1"},
    {"refused-combination",
     "first-last-layers-bf16",
     [](const Args& a) {
       return a.is_on("first-last-layers-bf16") && a.is_set("fp8-format") &&
              a.is_text("fp8-recipe", "delayed");
     },
     "the delayed recipe, the default, keeps no layer in bf16",
     "use another --fp8-recipe"},
    {"refused-combination",
     "reuse-grad-buf-for-mxfp8-param-ag",
     [](const Args& a) {
       return a.is_on("reuse-grad-buf-for-mxfp8-param-ag") &&
              a.is_off("fp8-param-gather");
     },
     "the gradients' buffer is reused only for weights that are in fp8",
     "add --fp8-param-gather"},
    {"refused-combination",
     "accumulate-allreduce-grads-in-fp32",
     [](const Args& a) {
       return a.is_on("accumulate-allreduce-grads-in-fp32") &&
              a.is_on("bf16") && a.is_text("main-grads-dtype", "bf16");
     },
     "--main-grads-dtype bf16 says the opposite",
     "use --main-grads-dtype fp32"},
    {"refused-combination",
     "fp16-lm-cross-entropy",
     [](const Args& a) {
       return a.is_on("fp16-lm-cross-entropy") && a.is_off("fp16");
     },
     "the loss is computed in fp16 only under --fp16",
     "remove it"},
    {"refused-combination",
     "fp32-residual-connection",
     [](const Args& a) {
       return a.is_on("fp32-residual-connection") && a.is_off("fp16") &&
              a.is_off("bf16");
     },
     "the residual is in fp32 anyway without --bf16 or --fp16",
     "remove it, or add --bf16"},
    {"refused-combination",
     "cross-entropy-fusion-impl",
     [](const Args& a) {
       return a.is_on("cross-entropy-loss-fusion") &&
              a.is_text("cross-entropy-fusion-impl", "te");
     },
     "core_v0.19.2 stops at Transformer Engine's fused loss for its unstable "
     "results",
     "use --cross-entropy-fusion-impl native"},
    // recomputation and offload
    {"refused-combination",
     "recompute-granularity",
     [](const Args& a) {
       return a.is_text("recompute-granularity", "full") &&
              a.is_off("recompute-method") && a.is_off("recompute-activations");
     },
     "full recomputation needs to know which layers",
     "add --recompute-method uniform and --recompute-num-layers 1"},
    {"refused-combination",
     "recompute-granularity",
     [](const Args& a) {
       return a.is_text("recompute-granularity", "full") &&
              a.is_set("recompute-method") &&
              a.is_off("recompute-num-layers") &&
              a.is_off("recompute-activations");
     },
     "full recomputation needs the number of layers of one block",
     "add --recompute-num-layers 1"},
    {"refused-combination",
     "recompute-method",
     [](const Args& a) {
       return a.is_set("recompute-method") &&
              (a.is_text("recompute-granularity", "selective") ||
               a.is_on("recompute-activations"));
     },
     "selective recomputation chooses modules, not layers, and takes no method",
     "remove it, or use --recompute-granularity full"},
    {"refused-combination",
     "recompute-num-layers",
     [](const Args& a) {
       return a.is_set("recompute-num-layers") &&
              (a.is_text("recompute-granularity", "selective") ||
               a.is_on("recompute-activations"));
     },
     "selective recomputation covers all layers and takes no number of them",
     "remove it, or use --recompute-granularity full"},
    {"refused-combination",
     "recompute-modules",
     [](const Args& a) {
       return holds(a, "recompute-modules", "moe_act") &&
              a.is_text("recompute-granularity", "selective") &&
              a.is_off("moe-grouped-gemm");
     },
     "moe_act is recomputed only inside the grouped products",
     "add --moe-grouped-gemm"},
    {"refused-combination",
     "recompute-modules",
     [](const Args& a) {
       return holds(a, "recompute-modules", "mla_up_proj") &&
              a.is_text("recompute-granularity", "selective") &&
              a.is_off("multi-latent-attention");
     },
     "mla_up_proj exists only in multi-latent attention",
     "remove it, or add --multi-latent-attention"},
    {"refused-combination",
     "recompute-modules",
     [](const Args& a) {
       return holds(a, "recompute-modules", "shared_experts") &&
              a.is_text("recompute-granularity", "selective") &&
              a.is_on("moe-shared-expert-overlap") &&
              a.is_set("moe-shared-expert-intermediate-size");
     },
     "shared experts are not recomputed while they overlap",
     "remove --moe-shared-expert-overlap"},
    {"refused-combination",
     "distribute-saved-activations",
     [](const Args& a) {
       return a.is_on("distribute-saved-activations") &&
              a.whole("tensor-model-parallel-size") == 1;
     },
     "saved activations are spread over the tp ranks, and there is one",
     "remove it"},
    {"refused-combination",
     "distribute-saved-activations",
     [](const Args& a) {
       return a.is_on("distribute-saved-activations") &&
              (a.is_off("recompute-granularity") ||
               a.is_text("recompute-granularity", "selective") ||
               a.is_on("recompute-activations"));
     },
     "only full recomputation saves what it spreads",
     "add --recompute-granularity full and --recompute-method uniform"},
    {"refused-combination",
     "distribute-saved-activations",
     [](const Args& a) {
       return a.is_on("distribute-saved-activations") &&
              a.is_on("sequence-parallel") &&
              a.whole("tensor-model-parallel-size").value_or(1) > 1;
     },
     "sequence parallelism spreads them already",
     "remove it"},
    {"refused-combination",
     "cpu-offloading-num-layers",
     [](const Args& a) {
       return a.whole("cpu-offloading-num-layers").value_or(0) > 0 &&
              a.whole("pipeline-model-parallel-size").value_or(1) > 1;
     },
     "activations do not go to the host under pipeline parallelism",
     "remove it"},
    {"refused-combination",
     "cpu-offloading-num-layers",
     [](const Args& a) {
       return a.whole("cpu-offloading-num-layers").value_or(0) > 0 &&
              (a.is_set("recompute-granularity") ||
               a.is_on("recompute-activations"));
     },
     "activations either go to the host or are recomputed",
     "remove one of the two"},
    {"refused-combination",
     "fine-grained-activation-offloading",
     [](const Args& a) {
       return a.is_on("fine-grained-activation-offloading") &&
              (a.is_text("transformer-impl", "local") ||
               a.is_off("offload-modules"));
     },
     "it needs Transformer Engine and the modules to offload",
     "add --offload-modules"},
    // the layers
    {"refused-combination",
     "squared-relu",
     [](const Args& a) { return a.is_on("squared-relu") && a.is_on("swiglu"); },
     "--swiglu is another activation",
     "remove one of the two"},
    {"refused-combination",
     "squared-relu",
     [](const Args& a) {
       return a.is_on("squared-relu") && a.is_off("no-bias-gelu-fusion") &&
              a.is_off("disable-bias-linear");
     },
     "the fused bias and activation, the default, exist for gelu and swiglu",
     "add --no-bias-gelu-fusion or --disable-bias-linear"},
    {"refused-combination",
     "quick-geglu",
     [](const Args& a) {
       return a.is_on("quick-geglu") && a.is_on("swiglu") &&
              a.is_off("squared-relu");
     },
     "--swiglu is another activation",
     "remove one of the two"},
    {"refused-combination",
     "fused-residual-rmsnorm",
     [](const Args& a) {
       return a.is_on("fused-residual-rmsnorm") &&
              a.is_text("normalization", "LayerNorm");
     },
     "it is fused with RMSNorm, and the default is LayerNorm",
     "add --normalization RMSNorm"},
    {"refused-combination",
     "no-position-embedding",
     [](const Args& a) {
       const auto kind = a.text("position-embedding-type");
       return a.is_on("no-position-embedding") && kind && *kind != "rope" &&
              a.is_off("use-rotary-position-embeddings");
     },
     "it is no longer how positions are turned off",
     "use --position-embedding-type none"},
    {"refused-combination",
     "position-embedding-type",
     [](const Args& a) {
       return a.is_text("position-embedding-type", "relative") &&
              a.is_text("transformer-impl", "local") &&
              a.is_off("use-rotary-position-embeddings");
     },
     "relative positions need Transformer Engine",
     "use --transformer-impl transformer_engine"},
    {"refused-combination",
     "position-embedding-type",
     [](const Args& a) {
       return a.is_text("position-embedding-type", "mrope") &&
              a.is_off("mrope-section") &&
              a.is_off("use-rotary-position-embeddings");
     },
     "mrope needs its sections",
     "add --mrope-section"},
    {"refused-combination",
     "mtp-num-layers",
     [](const Args& a) {
       const auto kind = a.text("position-embedding-type");
       return a.whole("mtp-num-layers").value_or(0) > 0 && kind &&
              *kind != "rope" && *kind != "none" &&
              !a.is_set("use-rotary-position-embeddings");
     },
     "prediction of several tokens works only with rope or no positions",
     "use --position-embedding-type rope"},
    {"refused-combination",
     "group-query-attention",
     [](const Args& a) {
       return a.is_on("group-query-attention") &&
              a.is_on("multi-latent-attention");
     },
     "multi-latent attention has no groups of queries",
     "remove --group-query-attention"},
    {"refused-combination",
     "mla-down-proj-fusion",
     [](const Args& a) {
       return a.is_on("mla-down-proj-fusion") &&
              a.is_off("multi-latent-attention") &&
              a.is_off("hybrid-layer-pattern");
     },
     "it is a part of multi-latent attention",
     "add --multi-latent-attention"},
    {"refused-combination",
     "rotary-interleaved",
     [](const Args& a) {
       return a.is_on("rotary-interleaved") &&
              a.is_on("multi-latent-attention");
     },
     "multi-latent attention has its own order of rotary pairs",
     "remove --rotary-interleaved"},
    {"refused-combination",
     "rope-type",
     [](const Args& a) {
       return a.is_text("rope-type", "yarn") &&
              a.is_off("multi-latent-attention") &&
              a.is_off("hybrid-layer-pattern");
     },
     "common attention takes only rope here",
     "use --position-embedding-type yarn"},
    {"out-of-range",
     "qk-clip-alpha",
     [](const Args& a) {
       const auto alpha = a.number("qk-clip-alpha");
       return a.is_on("qk-clip") && alpha && (*alpha <= 0 || *alpha >= 1);
     },
     "it must lie between 0 and 1, both excluded",
     "use 0.5"},
    // experts
    {"refused-combination",
     "expert-model-parallel-size",
     [](const Args& a) {
       return a.whole("expert-model-parallel-size").value_or(1) > 1 &&
              a.is_off("num-experts");
     },
     "expert parallelism needs experts",
     "add --num-experts"},
    {"refused-combination",
     "moe-ffn-hidden-size",
     [](const Args& a) {
       return a.is_set("moe-ffn-hidden-size") && a.is_off("num-experts") &&
              a.is_off("moe-layer-freq") && a.is_off("hybrid-layer-pattern");
     },
     "it is the size of experts, and there are none",
     "add --num-experts, or remove it"},
    {"refused-combination",
     "moe-latent-size",
     [](const Args& a) {
       return a.is_set("moe-latent-size") && a.is_off("num-experts");
     },
     "it is a size of experts, and there are none",
     "add --num-experts, or remove it"},
    {"refused-combination",
     "moe-router-topk",
     [](const Args& a) {
       return a.whole("moe-router-topk") == 1 &&
              a.is_text("moe-router-score-function", "softmax") &&
              a.is_off("moe-router-pre-softmax") &&
              !holds(a, "moe-router-load-balancing-type", "sinkhorn") &&
              (a.is_off("moe-router-load-balancing-type") ||
               a.items("moe-router-load-balancing-type"));
     },
     "a softmax over the one chosen expert has no gradient",
     "add --moe-router-pre-softmax"},
    {"refused-combination",
     "moe-router-enable-expert-bias",
     [](const Args& a) {
       return a.is_on("moe-router-enable-expert-bias") &&
              a.is_text("moe-router-score-function", "softmax");
     },
     "a bias of experts works only with the scores sigmoid and sqrtsoftplus",
     "use --moe-router-score-function sigmoid"},
    {"refused-combination",
     "moe-router-group-topk",
     [](const Args& a) {
       return a.is_set("moe-router-group-topk") &&
              a.is_off("moe-router-num-groups");
     },
     "it chooses among groups of experts",
     "add --moe-router-num-groups"},
    {"refused-combination",
     "moe-pad-expert-input-to-capacity",
     [](const Args& a) {
       return a.is_on("moe-pad-expert-input-to-capacity") &&
              a.is_off("moe-expert-capacity-factor");
     },
     "there is no capacity to pad to",
     "add --moe-expert-capacity-factor"},
    {"refused-combination",
     "moe-expert-capacity-factor",
     [](const Args& a) {
       return a.is_set("moe-expert-capacity-factor") &&
              (holds(a, "moe-router-load-balancing-type", "sinkhorn") ||
               holds(
                   a, "moe-router-load-balancing-type", "quantile_balancing"));
     },
     "a capacity works only with an auxiliary loss or none",
     "use --moe-router-load-balancing-type aux_loss"},
    {"refused-combination",
     "moe-shared-expert-overlap",
     [](const Args& a) {
       return a.is_on("moe-shared-expert-overlap") &&
              a.is_set("moe-shared-expert-intermediate-size") &&
              a.is_text("moe-token-dispatcher-type", "allgather");
     },
     "shared experts overlap only with the dispatchers alltoall and flex, and "
     "the default is allgather",
     "add --moe-token-dispatcher-type alltoall"},
    {"refused-combination",
     "moe-enable-deepep",
     [](const Args& a) {
       const auto kind = a.text("moe-token-dispatcher-type");
       return a.is_on("moe-enable-deepep") && kind && *kind != "flex";
     },
     "DeepEP works only under the flex dispatcher",
     "use --moe-token-dispatcher-type flex"},
    {"refused-combination",
     "moe-router-padding-for-quantization",
     [](const Args& a) {
       return a.is_on("moe-router-padding-for-quantization") &&
              a.is_off("fp8-format") && a.is_off("fp4-format");
     },
     "tokens are padded for fp8 or fp4, and neither is on",
     "remove it, or add --fp8-format"},
    {"refused-combination",
     "moe-single-grouped-weight",
     [](const Args& a) {
       return a.is_on("moe-single-grouped-weight") &&
              a.is_off("moe-grouped-gemm");
     },
     "the experts' weights are one tensor only for grouped products",
     "add --moe-grouped-gemm"},
};

}  // namespace

std::span<const MegatronDemand> megatron_model_demands() {
  return kDemands;
}

}  // namespace triax
