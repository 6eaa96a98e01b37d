// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "triax/comm/group.h"
#include "triax/memory/cast_copies.h"
#include "triax/optim/optimizer.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace triax {

struct ModuleUnit;

struct FullyShardedOptions {
  /// Paths of submodules that are gathered on their own: {"layers.*"}. `*`
  /// stands for any characters and `?` for one; all that no pattern fits is
  /// one more unit.
  std::vector<std::string> units = {};
  /// Units that are gathered ahead of their use, from the second step on.
  int prefetch = 1;
  /// Gradients are reduced in pieces of a unit of at most so many elements, or
  /// one parameter.
  int64_t bucket_numel = int64_t{25} << 18;
};

/// One unit as it is laid out.
struct ShardedUnit {
  std::string name;
  std::vector<std::string> parameters;  // paths
  int64_t nbytes = 0;                   // gathered, padding included
};

class FullyShardedModule;

/// Parameters that are there, by scope.
class WholeParameters {
 public:
  WholeParameters(WholeParameters&& other) noexcept;
  WholeParameters& operator=(WholeParameters&&) = delete;
  ~WholeParameters();

 private:
  friend class FullyShardedModule;
  explicit WholeParameters(FullyShardedModule* module);

  FullyShardedModule* module_;
};

/// ZeRO 3 for any torch::nn::Module, unedited: each rank of a group keeps its
/// shard of the parameters, of their gradients and of the optimizer's state.
///
///     Network network;
///     FullyShardedModule sharded(network, world, {.units = {"layers.*"}});
///     AdamW optimizer(sharded.optimized(), {});
///     for (…) {
///       const at::Tensor loss = network.forward(mine) / all_rows;
///       sharded.backward(loss);
///       sharded.step(optimizer, {.lr = 1e-3, .max_norm = 1.0});
///     }
///
/// The module is called as before. The first operation that uses a parameter
/// of a unit, in forward or backward, makes every rank gather the unit; it is
/// given back when an operation uses another unit. At most 1 + prefetch units
/// are gathered at a time, or as many as one operation uses. Each dtype among
/// the parameters is gathered, and counted, on its own.
///
/// Every rank of the group makes one, and calls the same functions in the same
/// order; the ranks' forward and backward passes must use the units in the
/// same order, which step() compares (Error). Trained bit for bit as by plain
/// data parallelism (FlatBuffer, BucketReducer) where a step has one backward.
/// One thread for each rank.
///
/// - Parameters outside of operations: data_ptr() and its kin throw, unless
///   gather_all() is alive. Sizes, names and types are there all the time.
/// - Writes: what operations write into parameters is kept if every rank
///   writes the same; what is written through pointers or Tensor::data(), which
///   LibTorch does not count, within gather_all() alone.
/// - Buffers stay whole and each rank's own; those of a BatchNorm follow the
///   rank's rows.
/// - A parameter that gets no gradient in a step is updated with 0, as in a
///   FlatBuffer: Optimizer knows no gradient that is missing.
/// - Autocast makes a copy of each weight, which the graph keeps: its memory is
///   given back with another unit's use, and it is cast anew in backward.
///   Leave autocast, which drops its cache, after each forward.
/// - A loss from before a step() can no longer go backward (c10::Error).
/// - The module must keep its parameters: to(dtype), and whatever else
///   replaces their memory, is an Error in the next step().
class FullyShardedModule {
 public:
  /// Takes over the module's parameters, of which those that require a gradient
  /// now are trained. All ranks begin with rank 0's parameters and buffers.
  /// Throws Error for a pattern that fits no submodule, a negative prefetch, a
  /// trained parameter that is neither fp32 nor fp64, a dtype that does not
  /// travel, parameters that share memory without being one tensor, and those
  /// that another FullyShardedModule has. `group` must outlive this.
  FullyShardedModule(torch::nn::Module& module,
                     Group& group,
                     FullyShardedOptions options = {});
  /// Without unshard() before, the module's parameters are gone.
  ~FullyShardedModule();
  FullyShardedModule(const FullyShardedModule&) = delete;
  FullyShardedModule& operator=(const FullyShardedModule&) = delete;

  const std::vector<ShardedUnit>& units() const { return units_; }

  /// This rank's shard of the trained parameters and, beside it, of the
  /// gradients' sum: what to make an Optimizer of, once. `set` may change a
  /// parameter's weight_decay and lr_scale; a parameter that lies in several
  /// shards is set on each of their ranks.
  std::vector<OptimizedTensor> optimized(
      const std::function<void(const std::string& path,
                               OptimizedTensor& tensor)>& set = {}) const;

  /// loss.backward(): its gradients are reduced and scattered behind it, and
  /// added to the shards. Several in a step accumulate. Gradients are sums
  /// over the ranks, so divide each loss by what all ranks together have.
  /// Throws what gathering threw in forward or backward. After a backward that
  /// threw, this and step() throw Error: some gradients are added, others not.
  void backward(const at::Tensor& loss);

  struct Update {
    double lr = 0.0;
    /// The gradient is scaled down to this norm; 0: never.
    double max_norm = 0.0;
  };
  /// Ends a step: one update by an optimizer made of optimized(), gradients
  /// back to 0. Returns the gradient's norm, over all ranks and parameters,
  /// before clipping. Throws Error where the optimizer lacks some of
  /// optimized(), and, on every rank, when the norm is not finite;
  /// the weights and the optimizer are then as before, and the gradients 0.
  double step(Optimizer& optimizer, const Update& update);

  /// Gathers all units until what it returns goes out of scope: to read, save
  /// or write parameters. Every rank must call. Must not outlive this, and
  /// must have ended before step(), which throws Error otherwise.
  [[nodiscard]] WholeParameters gather_all();

  /// Gives the module all its parameters back, whole, with their last values;
  /// this is of no more use then. Every rank must call.
  void unshard();

  /// This rank's shards of parameters and gradients.
  int64_t shard_bytes() const;
  /// The most bytes of parameters that were gathered at a time, beside the
  /// shards; gather_all() counts too.
  int64_t most_gathered_bytes() const;
  /// The most bytes of copies of parameters in another type (autocast's).
  int64_t most_cast_bytes() const;

 private:
  friend class WholeParameters;
  struct Part;  // the parameters of one dtype

  void watch_casts();
  void describe_units(const std::vector<ModuleUnit>& units);
  void check_usable() const;
  void check_optimizer(const Optimizer& optimizer) const;
  void rethrow_failure();
  void refuse_after_failure() const;
  double finish_gradients();
  void expire_graphs();
  void begin_step();
  void release_all();

  Group& group_;
  std::vector<ShardedUnit> units_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::unique_ptr<CastCopies> casts_;  // last: uses the parts
  std::string failure_;                // what backward() threw
  bool is_over_ = false;
  int num_whole_ = 0;  // that gather_all() returned and are alive
};

}  // namespace triax
