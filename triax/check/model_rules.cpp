// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/findings.h"

namespace triax {
namespace {

void check_head_dim(Findings& findings) {
  const ModelConfig& model = findings.config.model;
  const bool is_derived = !findings.is_set("model.head_dim");
  if (is_derived && model.hidden_size % model.num_attention_heads != 0) {
    const int64_t heads = model.num_attention_heads;
    const int64_t below = model.hidden_size / heads * heads;
    findings.error(
        "hidden-heads",
        "model.hidden_size",
        fmt::format("hidden_size {} / num_attention_heads {} is not whole",
                    model.hidden_size,
                    heads),
        below > 0 ? fmt::format("use {} or {}", below, below + heads)
                  : fmt::format("use {}", heads));
  }
  const bool is_llama = model.family == ModelFamily::kLlama;
  if (is_llama && model.head_dim % 2 != 0) {
    findings.error("head-dim-odd",
                   is_derived ? "model.hidden_size" : "model.head_dim",
                   fmt::format("head_dim {} is odd{}, and RoPE turns pairs",
                               model.head_dim,
                               findings.derivation("model.head_dim")),
                   fmt::format("use a head_dim of {}", model.head_dim + 1));
  }
}

void check_gpt2_shape(Findings& findings) {
  const ModelConfig& model = findings.config.model;
  const int64_t heads = model.num_attention_heads;
  if (model.num_key_value_heads != heads) {
    findings.error(
        "gpt2-shape",
        "model.num_key_value_heads",
        fmt::format("gpt2 has a key and value head for each of its {} heads, "
                    "not {}",
                    heads,
                    model.num_key_value_heads),
        "leave it out, or use family = \"llama\"");
  }
  if (findings.is_set("model.head_dim") &&
      model.head_dim * heads != model.hidden_size) {
    findings.error("gpt2-shape",
                   "model.head_dim",
                   fmt::format("gpt2's heads fill hidden_size {}, and "
                               "{} heads * head_dim {} = {}",
                               model.hidden_size,
                               heads,
                               model.head_dim,
                               heads * model.head_dim),
                   "leave head_dim out");
  }
}

void check_key_value_heads(Findings& findings) {
  const ModelConfig& model = findings.config.model;
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    findings.error(
        "kv-heads-divide-heads",
        "model.num_key_value_heads",
        fmt::format("{} query heads do not split over {} key and value heads",
                    model.num_attention_heads,
                    model.num_key_value_heads),
        "use " + one_of(divisors(model.num_attention_heads)));
  }
}

void check_rope(Findings& findings) {
  const RopeScaling& rope = findings.config.model.rope_scaling;
  if (rope.type == "llama3" &&
      !(rope.high_freq_factor > rope.low_freq_factor)) {
    findings.error("rope-factors",
                   "model.rope_scaling.high_freq_factor",
                   fmt::format("high_freq_factor {} is not above "
                               "low_freq_factor {}, and their difference "
                               "divides",
                               rope.high_freq_factor,
                               rope.low_freq_factor),
                   "Llama 3.1 has 4 and 1");
  }
}

void check_sequence(Findings& findings) {
  const ModelConfig& model = findings.config.model;
  const int64_t length = findings.config.data.sequence_length;
  if (length <= model.max_position_embeddings) {
    return;
  }
  const std::string message =
      fmt::format("sequence_length {} is above max_position_embeddings {}",
                  length,
                  model.max_position_embeddings);
  const std::string fix =
      fmt::format("use at most {}, or raise model.max_position_embeddings",
                  model.max_position_embeddings);
  const std::string key = "data.sequence_length";
  if (model.family == ModelFamily::kGpt2) {
    findings.error("sequence-too-long",
                   key,
                   message + ", the rows of gpt2's position embedding",
                   fix);
  } else {
    findings.warning("sequence-too-long",
                     key,
                     message + ", which other programs will trust",
                     fix);
  }
}

}  // namespace

void check_model(Findings& findings) {
  check_head_dim(findings);
  if (findings.config.model.family == ModelFamily::kGpt2) {
    check_gpt2_shape(findings);
  } else {
    check_key_value_heads(findings);
    check_rope(findings);
  }
  check_sequence(findings);
}

}  // namespace triax
