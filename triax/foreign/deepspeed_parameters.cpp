// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/deepspeed_parameters.h"

#include <algorithm>

#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

// What the engine takes out of Adam's keys before it calls the class:
// torch_adam, adam_w_mode, fp32_optimizer_states.
constexpr ParameterRow kOptimizers[] = {
    {"adam.fused",
     "FusedAdam",
     "lr | bias_correction | betas | eps | weight_decay | amsgrad | "
     "set_grad_none | torch_adam | adam_w_mode | fp32_optimizer_states"},
    {"adam.cpu",
     "DeepSpeedCPUAdam",
     "lr | bias_correction | betas | eps | weight_decay | amsgrad | "
     "torch_adam | adam_w_mode | fp32_optimizer_states"},
    {"adam.torch",
     "torch.optim.Adam",
     "lr | betas | eps | weight_decay | amsgrad | foreach | maximize | "
     "capturable | differentiable | fused | decoupled_weight_decay | "
     "torch_adam | adam_w_mode | fp32_optimizer_states"},
    {"adamw.torch",
     "torch.optim.AdamW",
     "lr | betas | eps | weight_decay | amsgrad | maximize | foreach | "
     "capturable | differentiable | fused | torch_adam | adam_w_mode | "
     "fp32_optimizer_states"},
    {"adagrad.cpu",
     "DeepSpeedCPUAdagrad",
     "lr | eps | weight_decay | amsgrad | fp32_optimizer_states"},
    {"lamb",
     "FusedLamb",
     "lr | bias_correction | betas | eps | eps_inside_sqrt | weight_decay | "
     "max_grad_norm | max_coeff | min_coeff | amsgrad"},
    {"lion.fused", "FusedLion", "lr | betas | weight_decay | set_grad_none"},
    {"lion.cpu",
     "DeepSpeedCPULion",
     "lr | betas | weight_decay | fp32_optimizer_states"},
    {.name = "muon",
     .class_name = "MuonWithAuxAdam",
     .parameters = "lr | momentum | weight_decay | ns_method | muon_lr | "
                   "betas | eps | adam_lr | torch_adam | adam_w_mode | "
                   "fp32_optimizer_states | foreach",
     .ignores_unknown = true},
    // Up to 0.19.7.
    {"onebitadam",
     "OnebitAdam",
     "lr | freeze_step | bias_correction | betas | eps | eps_inside_sqrt | "
     "weight_decay | max_grad_norm | amsgrad | cuda_aware | "
     "comm_backend_name"},
    {"onebitlamb",
     "OnebitLamb",
     "lr | freeze_step | bias_correction | betas | eps | eps_inside_sqrt | "
     "weight_decay | max_grad_norm | max_coeff | min_coeff | amsgrad | "
     "cuda_aware | comm_backend_name | coeff_beta | factor_max | factor_min | "
     "factor_threshold"},
    {"zerooneadam",
     "ZeroOneAdam",
     "lr | bias_correction | betas | eps | eps_inside_sqrt | weight_decay | "
     "max_grad_norm | var_freeze_step | var_update_scaler | "
     "local_step_scaler | local_step_clipper | amsgrad | cuda_aware | "
     "comm_backend_name"},
    // Of the package mup 1.0; their keys go on to torch's class.
    {"muadam",
     "mup.MuAdam",
     "impl | lr | betas | eps | weight_decay | amsgrad | foreach | maximize | "
     "capturable | differentiable | fused | decoupled_weight_decay"},
    {"muadamw",
     "mup.MuAdamW",
     "lr | betas | eps | weight_decay | amsgrad | maximize | foreach | "
     "capturable | differentiable | fused"},
    {"musgd",
     "mup.MuSGD",
     "impl | lr | momentum | dampening | weight_decay | nesterov | maximize | "
     "foreach | differentiable | fused"},
    {"ASGD",
     "torch.optim.ASGD",
     "lr | lambd | alpha | t0 | weight_decay | foreach | maximize | "
     "differentiable | capturable"},
    {"Adadelta",
     "torch.optim.Adadelta",
     "lr | rho | eps | weight_decay | foreach | capturable | maximize | "
     "differentiable"},
    {"Adafactor",
     "torch.optim.Adafactor",
     "lr | beta2_decay | eps | d | weight_decay | foreach | maximize"},
    {"Adagrad",
     "torch.optim.Adagrad",
     "lr | lr_decay | weight_decay | initial_accumulator_value | eps | "
     "foreach | maximize | differentiable | fused"},
    {"Adamax",
     "torch.optim.Adamax",
     "lr | betas | eps | weight_decay | foreach | maximize | differentiable | "
     "capturable"},
    {"LBFGS",
     "torch.optim.LBFGS",
     "lr | max_iter | max_eval | tolerance_grad | tolerance_change | "
     "history_size | line_search_fn"},
    {"NAdam",
     "torch.optim.NAdam",
     "lr | betas | eps | weight_decay | momentum_decay | "
     "decoupled_weight_decay | foreach | maximize | capturable | "
     "differentiable"},
    {"RAdam",
     "torch.optim.RAdam",
     "lr | betas | eps | weight_decay | decoupled_weight_decay | foreach | "
     "maximize | capturable | differentiable"},
    {"RMSprop",
     "torch.optim.RMSprop",
     "lr | alpha | eps | weight_decay | momentum | centered | capturable | "
     "foreach | maximize | differentiable"},
    {"Rprop",
     "torch.optim.Rprop",
     "lr | etas | step_sizes | capturable | foreach | maximize | "
     "differentiable"},
    {"SGD",
     "torch.optim.SGD",
     "lr | momentum | dampening | weight_decay | nesterov | maximize | "
     "foreach | differentiable | fused"},
    {"SparseAdam", "torch.optim.SparseAdam", "lr | betas | eps | maximize"},
};

constexpr ParameterRow kSchedules[] = {
    {"LRRangeTest",
     "LRRangeTest",
     "lr_range_test_min_lr | lr_range_test_step_size | "
     "lr_range_test_step_rate | lr_range_test_staircase | "
     "last_batch_iteration"},
    {"OneCycle",
     "OneCycle",
     "cycle_min_lr | cycle_max_lr | decay_lr_rate | cycle_first_step_size | "
     "cycle_second_step_size | cycle_first_stair_count | "
     "cycle_second_stair_count | decay_step_size | cycle_momentum | "
     "cycle_min_mom | cycle_max_mom | decay_mom_rate | last_batch_iteration",
     "cycle_min_lr | cycle_max_lr"},
    {"WarmupLR",
     "WarmupLR",
     "warmup_min_lr | warmup_max_lr | warmup_num_steps | warmup_type | "
     "last_batch_iteration"},
    {"WarmupDecayLR",
     "WarmupDecayLR",
     "total_num_steps | warmup_min_lr | warmup_max_lr | warmup_num_steps | "
     "warmup_type | last_batch_iteration",
     "total_num_steps"},
    {"WarmupCosineLR",
     "WarmupCosineLR",
     "total_num_steps | warmup_min_ratio | warmup_num_steps | cos_min_ratio | "
     "warmup_type | last_batch_iteration",
     "total_num_steps"},
    // Those that take only what JSON can say.
    {.name = "ConstantLR",
     .class_name = "torch's ConstantLR",
     .parameters = "factor | total_iters | last_epoch"},
    {.name = "CosineAnnealingLR",
     .class_name = "torch's CosineAnnealingLR",
     .parameters = "T_max | eta_min | last_epoch",
     .needed = "T_max"},
    {.name = "CosineAnnealingWarmRestarts",
     .class_name = "torch's CosineAnnealingWarmRestarts",
     .parameters = "T_0 | T_mult | eta_min | last_epoch",
     .needed = "T_0"},
    {.name = "CyclicLR",
     .class_name = "torch's CyclicLR",
     .parameters =
         "base_lr | max_lr | step_size_up | step_size_down | mode | gamma | "
         "scale_fn | scale_mode | cycle_momentum | base_momentum | "
         "max_momentum | last_epoch",
     .needed = "base_lr | max_lr"},
    {.name = "ExponentialLR",
     .class_name = "torch's ExponentialLR",
     .parameters = "gamma | last_epoch",
     .needed = "gamma"},
    {.name = "LinearLR",
     .class_name = "torch's LinearLR",
     .parameters = "start_factor | end_factor | total_iters | last_epoch"},
    {.name = "MultiStepLR",
     .class_name = "torch's MultiStepLR",
     .parameters = "milestones | gamma | last_epoch",
     .needed = "milestones"},
    {.name = "OneCycleLR",
     .class_name = "torch's OneCycleLR",
     .parameters =
         "max_lr | total_steps | epochs | steps_per_epoch | pct_start | "
         "anneal_strategy | cycle_momentum | base_momentum | max_momentum | "
         "div_factor | final_div_factor | three_phase | last_epoch",
     .needed = "max_lr"},
    {.name = "PolynomialLR",
     .class_name = "torch's PolynomialLR",
     .parameters = "total_iters | power | last_epoch"},
    {.name = "ReduceLROnPlateau",
     .class_name = "torch's ReduceLROnPlateau",
     .parameters = "mode | factor | patience | threshold | threshold_mode | "
                   "cooldown | min_lr | eps"},
    {.name = "StepLR",
     .class_name = "torch's StepLR",
     .parameters = "step_size | gamma | last_epoch",
     .needed = "step_size"},
};

const ParameterRow* find_row(std::span<const ParameterRow> rows,
                             std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const ParameterRow& row) {
        return row.name == name;
      });
  return found == rows.end() ? nullptr : &*found;
}

bool holds(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

const ParameterRow* find_optimizer_parameters(const OptimizerChoice& choice) {
  const std::string name = lower(choice.type);
  const bool is_own = holds(deepspeed_optimizers(), name) ||
                      holds(old_deepspeed_optimizers(), name);
  if (!is_own) {
    return holds(torch_optimizers(), choice.type)
               ? find_row(kOptimizers, choice.type)
               : nullptr;
  }
  if (name == "adam" || name == "adamw") {
    const bool is_adam_w = name == "adamw" || choice.is_adam_w;
    return find_row(kOptimizers,
                    choice.is_torch_adam
                        ? is_adam_w ? "adamw.torch" : "adam.torch"
                    : choice.is_offloaded ? "adam.cpu"
                                          : "adam.fused");
  }
  if (name == "adagrad") {
    return find_row(kOptimizers,
                    choice.is_offloaded ? "adagrad.cpu" : "Adagrad");
  }
  if (name == "lion") {
    return find_row(kOptimizers,
                    choice.is_offloaded ? "lion.cpu" : "lion.fused");
  }
  return find_row(kOptimizers, name);
}

const ParameterRow* find_schedule_parameters(std::string_view type) {
  return find_row(kSchedules, type);
}

std::span<const ParameterRow> optimizer_parameter_rows() {
  return kOptimizers;
}

std::span<const ParameterRow> schedule_parameter_rows() {
  return kSchedules;
}

const std::vector<std::string_view>& deepspeed_optimizers() {
  static const std::vector<std::string_view> names = {"adagrad",
                                                      "adam",
                                                      "adamw",
                                                      "lamb",
                                                      "muadam",
                                                      "muadamw",
                                                      "musgd",
                                                      "lion",
                                                      "muon"};
  return names;
}

const std::vector<std::string_view>& old_deepspeed_optimizers() {
  static const std::vector<std::string_view> names = {
      "onebitadam", "onebitlamb", "zerooneadam"};
  return names;
}

const std::vector<std::string_view>& torch_optimizers() {
  static const std::vector<std::string_view> names = {"Adadelta",
                                                      "Adafactor",
                                                      "Adagrad",
                                                      "Adam",
                                                      "AdamW",
                                                      "Adamax",
                                                      "ASGD",
                                                      "LBFGS",
                                                      "Muon",
                                                      "NAdam",
                                                      "RAdam",
                                                      "RMSprop",
                                                      "Rprop",
                                                      "SGD",
                                                      "SparseAdam"};
  return names;
}

const std::vector<std::string_view>& schedule_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const ParameterRow& row : kSchedules) {
      all.push_back(row.name);
    }
    // These take functions or other schedules, which JSON cannot say.
    for (const std::string_view name : {"ChainedScheduler",
                                        "LRScheduler",
                                        "LambdaLR",
                                        "MultiplicativeLR",
                                        "SequentialLR"}) {
      all.push_back(name);
    }
    return all;
  }();
  return names;
}

}  // namespace triax
