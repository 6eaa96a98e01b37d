// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"
#include "triax/plan/zero_stages.h"

namespace triax {

// What ZeRO 3 gathers at once: a unit, which is a few parameters that are used
// together. Its buckets hold nothing else, and a bucket holds trained
// parameters alone or frozen ones alone, so that the trained ones are cut
// exactly as their gradients are.
//
//   | unit head         | unit blocks.1          | unit blocks.0 ...
//   | bucket 0 | 1      | bucket 2   | 3 frozen  | bucket 4

struct ParameterUnit {
  std::string name;
  std::vector<int> parameters;  // indices, neighbours
  std::vector<int> buckets;     // indices, neighbours
  Range range;                  // in the flat buffer, padding included
};

struct UnitLayout {
  FlatLayout flat;  // of all parameters, trained or not
  std::vector<ParameterUnit> units;

  int64_t numel() const { return flat.numel(); }
};

/// A parameter that is to be laid out.
struct UnitParameter {
  int64_t numel = 0;
  std::string unit;  // parameters of one unit are neighbours
  bool is_trained = true;
  bool is_alone = false;  // has a bucket of its own
};

/// The parameters in the order that they are given in. Trained ones should come
/// before frozen ones in each unit, or a unit has more buckets than it needs.
UnitLayout make_unit_layout(const std::vector<UnitParameter>& parameters,
                            int64_t bucket_numel,
                            int num_shards);

/// The layout of the trained ones alone, as their gradients have it: its
/// buckets hold the same parameters in the same places.
FlatLayout trained_layout(const std::vector<UnitParameter>& parameters,
                          int64_t bucket_numel,
                          int num_shards);

/// The unit of a stored parameter of a transformer: "blocks.3", "embedding"
/// (positions too) or "head" (the final norm too).
std::string unit_of_parameter(const std::string& stored_name);

/// How a run lays out the parameters of one stage, given in the order in which
/// backward finishes them, with ZeRO 3. `is_trained` is by parameter; empty:
/// all are. Parameters of a unit are put in order, trained ones first: `order`
/// gets their indices as they were given. `config` must be resolved.
UnitLayout unit_layout(const RunConfig& config,
                       const std::vector<ParameterLayout>& parameters,
                       const std::vector<bool>& is_trained = {},
                       std::vector<int>* order = nullptr);

/// The parameters of a stage as units, in the order given.
std::vector<UnitParameter> unit_parameters(
    const RunConfig& config,
    const std::vector<ParameterLayout>& parameters,
    const std::vector<bool>& is_trained = {});

/// Elements of the most that are gathered at a time: of `1 + ahead` units that
/// follow each other, padding included. The last unit has the first one for a
/// neighbour: the next microbatch begins there, and a head that is tied to the
/// embedding uses it.
int64_t most_gathered(const UnitLayout& layout, int ahead);

}  // namespace triax
