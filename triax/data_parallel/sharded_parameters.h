// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "triax/comm/group.h"
#include "triax/data_parallel/spilled_parameters.h"
#include "triax/data_parallel/unit_order.h"
#include "triax/memory/refillable_storage.h"
#include "triax/memory/storage_watch.h"
#include "triax/plan/parameter_units.h"

namespace triax {

struct ShardedParametersOptions {
  /// Units that are gathered ahead of their use.
  int prefetch = 1;
  /// False: within a pass a unit stays gathered from its first use on, until
  /// the pass ends or its last backward has left it.
  bool reshard_after_forward = true;
};

/// Parameters of which a rank keeps its shard alone (ZeRO 3). They stay the
/// tensors they are, with their sizes, views and hooks; their memory comes and
/// goes by units. The first operation that uses a parameter of a unit, forward
/// or backward, makes every rank gather the unit, and it is given back when an
/// operation uses another one. So a module needs no change.
///
/// A pass is what a step, or a run of forward passes, does between
/// begin_pass() and end_pass(). The order in which a pass used the units is
/// learnt, and passes of the same kind gather `prefetch` units ahead; at most
/// 1 + prefetch are there at once, or as many as one operation uses. Without
/// passes nothing is gathered ahead.
///
/// Every rank of `shards` must use the units in the same order: end_pass()
/// compares, and throws Error with the first difference.
///
/// Outside of operations (data_ptr()) a parameter that is not gathered throws
/// an error. What operations write into gathered parameters in place is kept,
/// if every rank writes the same: detach() and no_grad are seen, data() is not.
class ShardedParameters {
 public:
  /// `shards` must outlive this; its ranks call alike. The layout must have
  /// as many shards. One dtype for all. With places, one for each bucket, the
  /// shard lies on file.
  ShardedParameters(UnitLayout layout,
                    at::ScalarType dtype,
                    Group& shards,
                    const ShardedParametersOptions& options = {},
                    std::vector<PartPlace> places = {});
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  const UnitLayout& layout() const { return layout_; }

  /// Takes over the parameters of a unit, in the layout's order: keeps this
  /// rank's shard of their values and gives the rest back. Each unit once, at
  /// any time; what is not yet added is not watched.
  void add(int unit, const std::vector<at::Tensor>& parameters);

  /// Elements of a parameter that this rank's shard holds: one dim, always
  /// there. What is written here is what the next gathering brings. Only where
  /// the shard lies in memory.
  at::Tensor owned(int parameter, const Range& elements) const;

  /// Passes of one `kind` use the units in the same order, as a rule.
  void begin_pass(int kind = 0);
  /// The next backward is the last one of the pass.
  void begin_last_backward();
  /// Gives everything back. Every rank must call.
  void end_pass();

  /// Gathers all units until release_all(). Every rank must call both.
  void gather_all();
  /// `may_be_written`: also past what LibTorch counts (a pointer, data()), so
  /// each rank keeps its part of the values as they are now.
  void release_all(bool may_be_written = false);
  /// Gathers a unit as an operation does that uses it.
  void use(int unit);
  /// Gathers one unit for good, whatever its shards become.
  void hold(int unit);

  /// Throws what gathering threw within an operation, since nothing can be
  /// thrown there. The operation itself has thrown c10::Error instead.
  void rethrow_failure();

  /// Of the shard, padding included.
  int64_t nbytes() const;
  /// The most that was gathered at a time, padding included.
  int64_t most_gathered_bytes() const { return most_gathered_bytes_; }

 private:
  struct Unit {
    explicit Unit(RefillableStorage the_storage)
        : storage(std::move(the_storage)) {}
    RefillableStorage storage;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> parts;  // sent, from file; end after the works
    std::vector<Work> works;        // while it is being gathered
    int64_t version = 0;            // sum of its parameters', when gathered
    int num_users = 0;              // operations under way with several units
    bool is_held = false;
  };

  void before_operation(std::span<const int> units);
  void after_operation(std::span<const int> units);
  void give_back_unused(const std::vector<int>& wanted);
  void start_gathering(int unit);
  void finish_gathering(int unit);
  void stop_gathering(Unit& unit, const char* why);
  void give_back(int unit);
  void keep_own(int unit);
  void keep_values(int unit, const std::vector<at::Tensor>& parameters);
  void read_ahead(std::span<const int> units);
  std::string why_not(int unit) const;
  at::Tensor part_of_shard(int bucket) const;
  int64_t version_of(const Unit& unit) const;

  const UnitLayout layout_;
  Group& shards_;
  const ShardedParametersOptions options_;
  const at::ScalarType dtype_;
  const int64_t element_bytes_;
  at::Tensor shard_;  // undefined where it lies on file
  std::unique_ptr<SpilledParameters> on_file_;
  std::vector<Unit> units_;
  std::mutex mutex_;  // operations come from several threads
  UnitOrder order_;
  // Of the pass that is under way.
  std::vector<int> previous_;  // the last operation's
  bool is_pass_ = false;
  bool is_last_backward_ = false;
  int64_t gathered_bytes_ = 0;
  // What was given back and may be gathered into at once: by bytes. Pages that
  // are there already save a fault each.
  std::multimap<int64_t, c10::DataPtr> spare_;
  int64_t most_gathered_bytes_ = 0;
  std::unique_ptr<StorageWatch> watch_;  // last: ends first
};

}  // namespace triax
