// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triax/check/breaks.h"
#include "triax/comm/board.h"
#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"

namespace triax {

struct VerifyOptions {
  int64_t num_steps = 3;
  Break broken = Break::kNone;
  /// Asked on every rank before each step; may be empty. Where one says yes,
  /// all end.
  std::function<bool()> is_stop_requested = {};
};

/// How far a quantity of the layout lies from one rank's, and what is allowed.
struct Distance {
  std::string what;  // "loss", "gradient norm", or a logical parameter
  double distance = 0;
  double bound = 0;

  bool is_within() const {
    return std::isfinite(distance) && distance <= bound;
  }
};

/// The first tensor, in the model's order, that lies too far.
struct FirstDifference {
  // "gradient of model.layers.0.self_attn.q_proj.weight in step 2"
  std::string name;
  std::string reference = "on one rank";  // "replayed", "rounded master"
  std::vector<int64_t> index = {};        // of the element that differs most
  double layout_value = 0;
  double one_rank_value = 0;
  double distance = 0;
  double bound = 0;
};

struct VerifyReport {
  /// Stopped on request: nothing was compared to its end.
  bool is_stopped = false;
  std::string plan;       // "dp2_tp2"
  std::string precision;  // "fp64"
  int64_t num_steps = 0;
  std::vector<double> losses;           // of the layout, by step
  std::vector<double> one_rank_losses;  // of one rank
  std::vector<double> norms;
  std::vector<double> one_rank_norms;
  Distance loss;
  Distance norm;
  Distance gradients;  // the worst of all steps and logical parameters
  Distance weights;    // the worst of all logical parameters
  std::optional<FirstDifference> first;
  /// Copies that differ between ranks: a sentence for each logical parameter,
  /// with where that was seen first.
  std::vector<std::string> drifted;
  /// Parameters that differ by more than a few roundings, and of which rounding
  /// alone may be half as large as the thing itself: neither equal nor
  /// different.
  std::vector<std::string> unproved;
  size_t num_parameters = 0;  // that have a gradient
  /// Parameters of which the same holds for the gradients after an update.
  size_t num_weak_later = 0;
  /// Why nothing is proved although all is equal; empty where it is.
  std::string dead;
  /// That is so because every parameter is unproved: another precision helps.
  bool is_lost_in_rounding() const;
  /// Something lies out of bounds, whatever else is proved or not.
  bool is_different() const;

  bool is_equal() const;
};

/// Trains the layout of `config` for some steps, then the same on one rank, and
/// compares the losses, the norms, the gradients of every step and the weights
/// afterwards; initial weights must be equal in bits:
///   gradient a, b: |a-b| / max(|b|, 1e-3 rms(all gradients) sqrt(numel))
///   weight, by its update from the start a0:
///     |a-r| / max(|r-a0|, 1e-2 sum(lr) sqrt(numel)),
///     where r is what one rank's optimizer makes of a0 with the layout's
///     gradients (Replay); in fp64 also against the one rank's
///     update, elements without a gradient left out;
///   norm, also against the norm of the layout's own gradients: 1e-9 in fp64,
///     1e-6 else.
/// A weight is not compared with the one rank's where gradients round: AdamW
/// makes a full step of whatever sign a rounding has. With bf16 and fp16 the
/// weights are the masters, in fp32, and each parameter must be its master
/// rounded once, bit for bit; a step that overflows ends the comparison.
/// The bound is 1e-9 in fp64. Else it is, for loss, norm and gradients, 4 times
/// the distance between that run and one on one rank that rounds otherwise
/// (noise_configs(); the farthest so far, and of a gradient no less than what
/// nine of ten gradients stay below), but no less than a few roundings. After
/// an update these bounds are 4 times wider, and 1e-6 in fp64: AdamW enlarges
/// roundings of tiny gradients. The bound of replayed weights is their rounding
/// to the stored type. Warm-up is left out, since its first update changes
/// nothing. Every rank of the mesh must call; the report is whole on world rank
/// 0 and empty elsewhere. All runs go forward together, a step at a time, so
/// that what is held does not grow with the steps (predict_verify_memory());
/// the other ranks wait while world rank 0 takes the runs on one rank forward.
/// They do so by the steps on the board, which must be new. Throws Error where
/// the data left nothing to break.
VerifyReport verify(const RunConfig& config,
                    DeviceMesh& mesh,
                    const std::shared_ptr<Board>& board,
                    const VerifyOptions& options);

/// The table for people; ends with the line "equal" or "different".
std::string to_text(const VerifyReport& report);
/// One JSON object.
std::string to_json_text(const VerifyReport& report);

}  // namespace triax
