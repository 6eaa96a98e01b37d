// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triax/schedule/action.h"
#include "triax/schedule/simulate.h"

namespace triax::detail {

using ActionLists = std::vector<std::vector<Action>>;

/// Where the virtual stages of some action lists stand: stage s on rank
/// s mod num_ranks, as chunk s / num_ranks.
struct PipelineShape {
  int num_ranks = 1;
  int num_chunks = 1;
  bool is_forward_only = true;

  int num_stages() const { return num_ranks * num_chunks; }
  int stage(int rank, const Action& action) const {
    return action.chunk * num_ranks + rank;
  }
};

PipelineShape shape_of(const ActionLists& actions);

/// Runs action lists on a clock, each rank as far as it gets, in turn. A rank
/// sees of the others only the order of their messages, so the turn does not
/// change the result.
class PipelineClock {
 public:
  /// `actions` must outlive the clock.
  PipelineClock(const ActionLists& actions, ScheduleCosts costs);

  /// False when ranks wait for ever. Throws Error when a receive meets another
  /// message than its own.
  bool run();
  /// "rank 0 waits in sA1 (action 5) for rank 1; rank 1 waits in …".
  std::string waiting() const;
  std::vector<std::vector<ActionSpan>> take_spans() {
    return std::move(spans_);
  }

 private:
  struct Message {
    int sending_stage = 0;
    Action action;
    double posted_seconds = 0.0;
    double arrival_seconds = 0.0;
    double taken_seconds = 0.0;
  };
  /// One direction between two ranks: first in, first out.
  struct Channel {
    std::vector<Message> messages;
    size_t num_taken = 0;
  };
  struct Rank {
    double now_seconds = 0.0;
    size_t next = 0;
    /// Its next action is a send that stands in the channel already.
    bool has_posted = false;
  };

  bool is_done(int rank) const;
  /// Does the rank's next action; false when it must wait.
  bool advance(int rank);
  /// These three say when the action ends, nothing while it must wait.
  std::optional<double> compute(int rank, const Action& action) const;
  std::optional<double> send(int rank, const Action& action);
  std::optional<double> receive(int rank, const Action& action);

  void post(Channel& channel, int rank, const Action& action);
  void require_match(int rank,
                     const Action& action,
                     const Message& message) const;
  int peer(int rank, ActionKind kind) const;

  const ActionLists& actions_;
  const ScheduleCosts costs_;
  const PipelineShape shape_;
  bool is_moving_ = false;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Channel> channels_;  // by (sender, receiver)
  std::vector<std::vector<ActionSpan>> spans_;
};

}  // namespace triax::detail
