// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/pipeline_clock.h"

#include <algorithm>

#include "triax/base/error.h"

namespace triax::detail {

namespace {

bool is_activation(ActionKind kind) {
  return kind == ActionKind::kReceiveActivation ||
         kind == ActionKind::kSendActivation;
}

double value_of(const std::vector<double>& values, int rank) {
  return values.size() == 1 ? values[0] : values[rank];
}

}  // namespace

PipelineShape shape_of(const ActionLists& actions) {
  PipelineShape shape;
  shape.num_ranks = static_cast<int>(actions.size());
  for (const std::vector<Action>& list : actions) {
    for (const Action& action : list) {
      shape.num_chunks = std::max(shape.num_chunks, action.chunk + 1);
      shape.is_forward_only &= action.kind != ActionKind::kBackward;
    }
  }
  return shape;
}

PipelineClock::PipelineClock(const ActionLists& actions, ScheduleCosts costs)
    : actions_(actions),
      costs_(std::move(costs)),
      shape_(shape_of(actions)),
      ranks_(actions.size()),
      spans_(actions.size()) {
  for (const auto* seconds :
       {&costs_.forward_seconds, &costs_.backward_seconds}) {
    TRIAX_CHECK(seconds->size() == 1 || seconds->size() == actions.size(),
                "one value for all ranks or one for each");
  }
}

bool PipelineClock::run() {
  do {
    is_moving_ = false;
    for (int rank = 0; rank < shape_.num_ranks; ++rank) {
      while (!is_done(rank) && advance(rank)) {
      }
    }
  } while (is_moving_);
  for (int rank = 0; rank < shape_.num_ranks; ++rank) {
    if (!is_done(rank)) {
      return false;
    }
  }
  return true;
}

std::string PipelineClock::waiting() const {
  std::string text;
  for (int rank = 0; rank < shape_.num_ranks; ++rank) {
    if (!is_done(rank)) {
      const size_t next = ranks_[rank].next;
      const Action& action = actions_[rank][next];
      text += join(text.empty() ? "rank " : "; rank ",
                   rank,
                   " waits in ",
                   to_string(action),
                   " (action ",
                   next,
                   ") for rank ",
                   peer(rank, action.kind));
    }
  }
  return text;
}

bool PipelineClock::is_done(int rank) const {
  return ranks_[rank].next == actions_[rank].size();
}

bool PipelineClock::advance(int rank) {
  const Action& action = actions_[rank][ranks_[rank].next];
  std::optional<double> end;
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kBackward:
      end = compute(rank, action);
      break;
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient:
      end = send(rank, action);
      break;
    case ActionKind::kReceiveActivation:
    case ActionKind::kReceiveGradient:
      end = receive(rank, action);
      break;
  }
  if (!end) {
    return false;
  }
  spans_[rank].push_back({action, ranks_[rank].now_seconds, *end});
  ranks_[rank].now_seconds = *end;
  ++ranks_[rank].next;
  is_moving_ = true;
  return true;
}

std::optional<double> PipelineClock::compute(int rank,
                                             const Action& action) const {
  const bool is_forward = action.kind == ActionKind::kForward;
  return ranks_[rank].now_seconds +
         value_of(is_forward ? costs_.forward_seconds : costs_.backward_seconds,
                  rank);
}

std::optional<double> PipelineClock::send(int rank, const Action& action) {
  Channel& channel = channels_[{rank, peer(rank, action.kind)}];
  const size_t num_waiting = channel.messages.size() - channel.num_taken;
  if (costs_.link_depth > 0) {
    if (num_waiting >= static_cast<size_t>(costs_.link_depth)) {
      return std::nullopt;
    }
    post(channel, rank, action);
    return channel.messages.back().posted_seconds;
  }
  // Rendezvous: the message stands in the channel until it is taken.
  if (!ranks_[rank].has_posted) {
    post(channel, rank, action);
    ranks_[rank].has_posted = true;
    return std::nullopt;
  }
  if (num_waiting > 0) {
    return std::nullopt;
  }
  ranks_[rank].has_posted = false;
  return channel.messages.back().taken_seconds;
}

void PipelineClock::post(Channel& channel, int rank, const Action& action) {
  std::vector<Message>& messages = channel.messages;
  const size_t depth = std::max(costs_.link_depth, 1);
  double posted = ranks_[rank].now_seconds;
  double link_is_free = 0.0;
  if (messages.size() >= depth) {
    posted = std::max(posted, messages[messages.size() - depth].taken_seconds);
  }
  if (!messages.empty()) {
    link_is_free = messages.back().arrival_seconds;
  }
  messages.push_back({.sending_stage = shape_.stage(rank, action),
                      .action = action,
                      .posted_seconds = posted,
                      .arrival_seconds = std::max(posted, link_is_free) +
                                         costs_.transfer_seconds});
}

std::optional<double> PipelineClock::receive(int rank, const Action& action) {
  Channel& channel = channels_[{peer(rank, action.kind), rank}];
  if (channel.num_taken == channel.messages.size()) {
    return std::nullopt;
  }
  Message& message = channel.messages[channel.num_taken++];
  require_match(rank, action, message);
  const double now = ranks_[rank].now_seconds;
  // A rendezvous begins when both are there.
  message.taken_seconds =
      costs_.link_depth > 0
          ? std::max(now, message.arrival_seconds)
          : std::max(now, message.posted_seconds) + costs_.transfer_seconds;
  return message.taken_seconds;
}

void PipelineClock::require_match(int rank,
                                  const Action& action,
                                  const Message& message) const {
  const bool is_forward = is_activation(action.kind);
  const int sending_stage = shape_.stage(rank, action) + (is_forward ? -1 : 1);
  if (message.sending_stage == sending_stage &&
      is_activation(message.action.kind) == is_forward &&
      message.action.microbatch == action.microbatch) {
    return;
  }
  throw Error("rank ",
              rank,
              ", action ",
              ranks_[rank].next,
              " (",
              to_string(action),
              ") meets ",
              to_string(message.action),
              " of rank ",
              peer(rank, action.kind),
              ": receives must stand in the order of the sends");
}

int PipelineClock::peer(int rank, ActionKind kind) const {
  const bool is_next = kind == ActionKind::kSendActivation ||
                       kind == ActionKind::kReceiveGradient;
  return (rank + (is_next ? 1 : shape_.num_ranks - 1)) % shape_.num_ranks;
}

}  // namespace triax::detail
