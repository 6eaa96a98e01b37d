// SPDX-License-Identifier: Apache-2.0
#include "triax/train/time_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

double seconds_of(const Event& event) {
  return static_cast<double>(event.end_ns - event.start_ns) * 1e-9;
}

/// The events from `next` on, which is moved behind them.
std::vector<Event> ended_events(const Recorder& recorder, uint64_t& next) {
  std::vector<Event> events;
  const uint64_t end = recorder.num_events();
  for (; next < end; ++next) {
    Event event;
    if (recorder.read(next, event) && event.end_ns != 0) {
      events.push_back(event);
    }
  }
  return events;
}

/// Forwards and backwards by start; a rank computes one at a time.
std::vector<Event> compute_spans(const std::vector<Event>& events) {
  std::vector<Event> spans;
  for (const Event& event : events) {
    if (event.kind == EventKind::kForward ||
        event.kind == EventKind::kBackward) {
      spans.push_back(event);
    }
  }
  std::sort(spans.begin(), spans.end(), [](const Event& a, const Event& b) {
    return a.start_ns < b.start_ns;
  });
  return spans;
}

bool is_inside(const Event& wait, const std::vector<Event>& spans) {
  const auto after = std::upper_bound(
      spans.begin(),
      spans.end(),
      wait.start_ns,
      [](int64_t start, const Event& span) { return start < span.start_ns; });
  return after != spans.begin() && wait.start_ns < std::prev(after)->end_ns;
}

}  // namespace

TimeAccount::TimeAccount(Board& board, Recorder& recorder)
    : recorder_(recorder),
      pp_name_(board.name_id("pp")),
      next_event_(recorder.num_events()),
      since_ns_(monotonic_ns()) {}

void TimeAccount::add() {
  const uint64_t end = recorder_.num_events();
  const bool has_lost = end - next_event_ > kEventCapacity;
  if (has_lost) {
    next_event_ = end - kEventCapacity;
  }
  const std::vector<Event> events = ended_events(recorder_, next_event_);
  if (has_lost && !events.empty()) {
    since_ns_ = events.front().start_ns;
  }
  const std::vector<Event> spans = compute_spans(events);
  for (const Event& event : events) {
    const double seconds = seconds_of(event);
    switch (event.kind) {
      case EventKind::kForward:
      case EventKind::kBackward:
        seconds_[kCompute] += seconds;
        break;
      case EventKind::kWait:
        seconds_[event.group == pp_name_ ? kBubble : kExposed] += seconds;
        if (event.group != pp_name_ && is_inside(event, spans)) {
          seconds_[kCompute] -= seconds;
        }
        break;
      case EventKind::kCollective:
      case EventKind::kSend:
      case EventKind::kReceive:
        seconds_[kTransfers] += seconds;
        break;
      case EventKind::kData:
        seconds_[kData] += seconds;
        break;
      case EventKind::kOptimizer:
        seconds_[kOptimizer] += seconds;
        break;
      default:
        break;
    }
  }
  const int64_t now = monotonic_ns();
  seconds_[kTotal] += static_cast<double>(now - since_ns_) * 1e-9;
  since_ns_ = now;
}

TimeShares TimeAccount::take(DeviceMesh& mesh) {
  add();
  std::array<double, kNumParts> parts = std::exchange(seconds_, {});
  sum_over(mesh.world(), parts);
  const double whole = std::max(parts[kTotal], 1e-12);
  TimeShares shares{.compute = parts[kCompute] / whole,
                    .exposed_comm = parts[kExposed] / whole,
                    .total_comm = parts[kTransfers] / whole,
                    .bubble = parts[kBubble] / whole,
                    .data = parts[kData] / whole,
                    .optimizer = parts[kOptimizer] / whole};
  shares.other = std::max(0.0,
                          1 - shares.compute - shares.exposed_comm -
                              shares.bubble - shares.data - shares.optimizer);
  return shares;
}

std::string to_string(const TimeShares& shares) {
  return fmt::format(
      "compute {:.0f}% · comm {:.0f}% exposed ({:.0f}% total) · bubble "
      "{:.0f}% · data {:.1f}% · optimizer {:.0f}% · other {:.0f}%",
      100 * shares.compute,
      100 * shares.exposed_comm,
      100 * shares.total_comm,
      100 * shares.bubble,
      100 * shares.data,
      100 * shares.optimizer,
      100 * shares.other);
}

}  // namespace triax
