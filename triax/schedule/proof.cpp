// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/proof.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "triax/base/error.h"
#include "triax/schedule/pipeline_clock.h"

namespace triax {

namespace {

using detail::ActionLists;
using detail::PipelineShape;

/// Which actions a rank has done for one microbatch of one chunk.
class Progress {
 public:
  bool has(ActionKind kind) const { return done_ & bit(kind); }
  void set(ActionKind kind) { done_ |= bit(kind); }

 private:
  static unsigned bit(ActionKind kind) {
    return 1u << static_cast<unsigned>(kind);
  }
  unsigned done_ = 0;
};

/// Follows one rank's list and says what is wrong with it.
class RankProof {
 public:
  RankProof(const PipelineShape& shape, int rank, int num_microbatches)
      : shape_(shape),
        rank_(rank),
        num_microbatches_(num_microbatches),
        progress_(static_cast<size_t>(num_microbatches) * shape.num_chunks) {}

  void run(const std::vector<Action>& actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      step(actions[i], i);
    }
    for (int chunk = 0; chunk < shape_.num_chunks; ++chunk) {
      for (int microbatch = 0; microbatch < num_microbatches_; ++microbatch) {
        require_all_done(microbatch, chunk);
      }
    }
  }

 private:
  void step(const Action& action, size_t index) {
    const std::string where = detail::join(
        "rank ", rank_, ", action ", index, " (", to_string(action), "): ");
    if (action.microbatch < 0 || action.microbatch >= num_microbatches_ ||
        action.chunk < 0) {
      throw Error(where, "there is no such microbatch");
    }
    Progress& progress = progress_at(action.microbatch, action.chunk);
    if (progress.has(action.kind)) {
      throw Error(where, "it was done before");
    }
    if (!belongs(action)) {
      throw Error(where, "there is no stage on that side");
    }
    if (const auto missing = missing_before(action, progress)) {
      throw Error(where,
                  to_string({*missing, action.microbatch, action.chunk}),
                  " must come before it");
    }
    progress.set(action.kind);
  }

  void require_all_done(int microbatch, int chunk) {
    for (ActionKind kind : {ActionKind::kForward,
                            ActionKind::kSendActivation,
                            ActionKind::kBackward,
                            ActionKind::kSendGradient}) {
      const Action action = {kind, microbatch, chunk};
      if (belongs(action) && !progress_at(microbatch, chunk).has(kind)) {
        throw Error("rank ", rank_, " never does ", to_string(action));
      }
    }
  }

  /// Whether this stage has such an action at all.
  bool belongs(const Action& action) const {
    const int stage = shape_.stage(rank_, action);
    const bool is_first = stage == 0;
    const bool is_last = stage == shape_.num_stages() - 1;
    switch (action.kind) {
      case ActionKind::kForward:
        return true;
      case ActionKind::kReceiveActivation:
        return !is_first;
      case ActionKind::kSendActivation:
        return !is_last;
      case ActionKind::kBackward:
        return !shape_.is_forward_only;
      case ActionKind::kReceiveGradient:
        return !is_last && !shape_.is_forward_only;
      case ActionKind::kSendGradient:
        return !is_first && !shape_.is_forward_only;
    }
    return false;
  }

  /// What `action` needs and this rank has not done.
  std::optional<ActionKind> missing_before(const Action& action,
                                           const Progress& progress) const {
    const auto first_missing = [&](std::initializer_list<ActionKind> needed)
        -> std::optional<ActionKind> {
      for (ActionKind kind : needed) {
        if (belongs({kind, action.microbatch, action.chunk}) &&
            !progress.has(kind)) {
          return kind;
        }
      }
      return std::nullopt;
    };
    switch (action.kind) {
      case ActionKind::kForward:
        return first_missing({ActionKind::kReceiveActivation});
      case ActionKind::kSendActivation:
        return first_missing({ActionKind::kForward});
      case ActionKind::kBackward:
        return first_missing(
            {ActionKind::kForward, ActionKind::kReceiveGradient});
      case ActionKind::kSendGradient:
        return first_missing({ActionKind::kBackward});
      case ActionKind::kReceiveActivation:
      case ActionKind::kReceiveGradient:
        return std::nullopt;
    }
    return std::nullopt;
  }

  Progress& progress_at(int microbatch, int chunk) {
    return progress_[static_cast<size_t>(chunk) * num_microbatches_ +
                     microbatch];
  }

  const PipelineShape& shape_;
  const int rank_;
  const int num_microbatches_;
  std::vector<Progress> progress_;
};

// ---- all ranks together

void require_runs(const ActionLists& actions,
                  int link_depth,
                  const std::string& when) {
  ScheduleCosts costs;
  costs.link_depth = link_depth;
  detail::PipelineClock clock(actions, costs);
  if (!clock.run()) {
    throw Error(when, " ranks wait for ever: ", clock.waiting());
  }
}

int least_link_depth(const ActionLists& actions) {
  ScheduleCosts costs;
  costs.link_depth = 0;
  while (!detail::PipelineClock(actions, costs).run()) {
    ++costs.link_depth;
  }
  return costs.link_depth;
}

}  // namespace

ScheduleProof prove_schedule(const ActionLists& actions, int num_microbatches) {
  TRIAX_CHECK(!actions.empty() && num_microbatches >= 1,
              actions.size(),
              " ranks, ",
              num_microbatches,
              " microbatches");
  const PipelineShape shape = detail::shape_of(actions);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    RankProof(shape, rank, num_microbatches).run(actions[rank]);
  }
  require_runs(actions,
               std::numeric_limits<int>::max(),
               "however many messages a link buffers,");
  ScheduleProof proof = {.num_microbatches = num_microbatches,
                         .num_chunks = shape.num_chunks,
                         .is_forward_only = shape.is_forward_only,
                         .least_link_depth = least_link_depth(actions),
                         .peak_live_microbatches = {}};
  for (const std::vector<Action>& list : actions) {
    proof.peak_live_microbatches.push_back(peak_live_microbatches(list));
  }
  return proof;
}

ScheduleProof prove_schedule(const ActionLists& actions,
                             int num_microbatches,
                             int link_depth) {
  const ScheduleProof proof = prove_schedule(actions, num_microbatches);
  require_runs(actions,
               link_depth,
               detail::join("with ",
                            link_depth,
                            " messages buffered per direction of a link (the "
                            "least is ",
                            proof.least_link_depth,
                            "),"));
  return proof;
}

int peak_live_microbatches(const std::vector<Action>& actions) {
  int live = 0;
  int peak = 0;
  bool is_forward_only = true;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kForward) {
      peak = std::max(peak, ++live);
    } else if (action.kind == ActionKind::kBackward) {
      --live;
      is_forward_only = false;
    }
  }
  return is_forward_only ? std::min(peak, 1) : peak;
}

}  // namespace triax
