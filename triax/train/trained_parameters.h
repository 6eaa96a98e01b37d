// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "triax/base/exact_sum.h"
#include "triax/check/breaks.h"
#include "triax/config/run_config.h"
#include "triax/data_parallel/flat_parameters.h"
#include "triax/data_parallel/replica_gradients.h"
#include "triax/data_parallel/replica_groups.h"
#include "triax/data_parallel/sharded_parameters.h"
#include "triax/mesh/device_mesh.h"
#include "triax/optim/optimizer.h"
#include "triax/plan/zero_stages.h"
#include "triax/tensor_parallel/partial_gradients.h"
#include "triax/train/offloaded_shard.h"
#include "triax/train/rank_model.h"

namespace triax {

/// What is trained of one rank's part of the model: its gradients, their sum,
/// and the update. With ZeRO a rank sums up and updates its shard alone, and
/// then gets the other shards' parameters; without, its shard is everything.
/// With ZeRO 3 the parameters, frozen ones too, are whole only while operations
/// use them.
///
/// A step is begin_step(), before_backward() and after_backward() around each
/// microbatch's backward, sum(), update(); every rank of the mesh must call
/// them.
class TrainedParameters {
 public:
  /// Every rank of the mesh must call. Draws the parameters of a model that was
  /// placed, and freezes what the config freezes. `mesh` and `rank_model` must
  /// outlive this.
  TrainedParameters(const RunConfig& config,
                    DeviceMesh& mesh,
                    RankModel& rank_model,
                    Break broken = Break::kNone);

  void begin_step();
  void before_backward(int microbatch, bool is_last);
  void after_backward() { gradients_->after_backward(); }
  /// Over microbatches and replicas; over tp ranks and stages where these hold
  /// parts of one gradient.
  void sum();
  /// `lr` of this step; the gradients are multiplied with `gradient_scale`.
  void update(double lr, double gradient_scale);
  /// Updates made: what the learning rate goes by.
  int64_t num_updates() const { return optimizer_->num_steps(); }

  /// After sum(): the squares that this rank counts of the global norm.
  ExactSum owned_squares() const;
  /// After sum(): whether each gradient that this rank updates with is finite,
  /// those included whose squares another rank counts.
  bool has_finite_gradients() const;
  /// False where another rank counts all of this rank's squares.
  bool counts_squares() const { return groups_.is_first_replica(); }

  /// The squares of gradients of parts of the batch, each as it stands in the
  /// sum: of this rank's replica, or of its microbatches where these are
  /// reduced one by one.
  const ExactSum& part_squares() const { return part_squares_; }
  /// Parts of the global batch; 0 where part_squares() means nothing: with one
  /// part, and where several ranks hold parts of one gradient (KV replicas,
  /// tied stages), which is then nowhere whole before the replicas' sum.
  int64_t num_parts() const { return num_parts_; }

  /// Between sum() and update(): makes each trained parameter's grad() whole,
  /// until release_gradients(). Every rank must call.
  void gather_gradients() { gradients_->gather(); }
  void release_gradients() { gradients_->release(); }

  // ZeRO 3; nothing without. Every rank must call.

  /// Around forward passes that are no step.
  void begin_forward_pass();
  void end_forward_pass();
  /// Makes all parameters whole until release_parameters().
  void gather_parameters();
  void release_parameters();
  /// What went wrong while parameters were gathered, where an operation that
  /// needed them has thrown.
  void rethrow_failure();
  /// The most that was whole at a time beside the shard.
  int64_t most_gathered_bytes() const;

  /// A slice of the shard that this rank updates: one dim, in the parameters'
  /// dtype, and the memory itself.
  at::Tensor owned_parameter(const ShardSlice& slice) const;

  /// What is updated of each stored parameter, whole, by the layout's name: its
  /// master in master_dtype(), or what is frozen, widened. Only where there
  /// are masters; with ZeRO 3 between gather_parameters() and
  /// release_parameters(). Every rank must call.
  std::map<std::string, at::Tensor> gather_masters() const;

  /// All parameters and their padding; with ZeRO 3 this rank's shard of them.
  int64_t parameter_bytes() const;
  int64_t gradient_bytes() const { return gradients_->nbytes(); }
  int64_t bucket_bytes() const { return gradients_->bucket_bytes(); }
  /// Wherever it lies.
  int64_t optimizer_bytes() const { return optimizer_->state_bytes(); }
  /// Of it in memory.
  int64_t optimizer_memory_bytes() const {
    return optimizer_->is_offloaded() ? 0 : optimizer_bytes();
  }
  /// What of it lies on file; nullptr: nothing.
  const OffloadedShard* offloaded() const { return offloaded_.get(); }
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  void lay_out();
  void lay_out_units();
  void draw();
  void hold_unit_of(int parameter);
  void shard_unit(const std::vector<ParameterSlot*>& slots);
  void make_gradients();
  void make_optimizer_slices();
  void watch_parts();
  void sum_partial();
  void sum_tied();
  bool has_gradients_on_file() const {
    return offloaded_ && offloaded_->has_gradients();
  }
  bool has_parameters_on_file() const {
    return offloaded_ && offloaded_->has_parameters();
  }
  bool is_tied_copy(const ParameterSlot& slot) const;
  bool has_split_gradients() const;
  const ParameterSlot& slot_of(const ShardSlice& slice) const {
    return *trained_[slice.parameter];
  }

  const RunConfig config_;
  DeviceMesh& mesh_;
  RankModel& rank_model_;
  const Break broken_;
  PartialGradients partial_;
  ReplicaGroups groups_;
  std::vector<ParameterSlot*> trained_;  // not frozen, in buffer order
  std::set<const ParameterSlot*> frozen_;
  FlatLayout layout_;
  std::vector<ShardSlice> mine_;               // this rank's shard
  std::unique_ptr<OffloadedShard> offloaded_;  // where some of it is on file
  // Where there are shards: whole parameters, or with ZeRO 3 shards.
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<ShardedParameters> sharded_;
  std::vector<ParameterSlot*> sharded_slots_;  // in its layout's order
  std::vector<int> number_;                    // there, of what is trained
  std::unique_ptr<ReplicaGradients> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  ExactSum part_squares_;
  int64_t num_parts_ = 0;
};

}  // namespace triax
