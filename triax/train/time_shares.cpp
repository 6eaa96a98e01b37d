// SPDX-License-Identifier: Apache-2.0
#include "triax/train/time_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

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

TimeShares TimeAccount::take(DeviceMesh& mesh) {
  const std::vector<Event> events = ended_events(recorder_, next_event_);
  const std::vector<Event> spans = compute_spans(events);
  std::array<double, kNumEventKinds> seconds{};
  double bubble = 0;
  double waits_inside = 0;
  for (const Event& event : events) {
    const bool is_wait = event.kind == EventKind::kWait;
    if (is_wait && event.group == pp_name_) {
      bubble += seconds_of(event);
      continue;
    }
    seconds[static_cast<int>(event.kind)] += seconds_of(event);
    if (is_wait && is_inside(event, spans)) {
      waits_inside += seconds_of(event);
    }
  }
  const int64_t now = monotonic_ns();
  const double total = static_cast<double>(now - since_ns_) * 1e-9;
  since_ns_ = now;

  const auto of = [&](EventKind kind) {
    return seconds[static_cast<int>(kind)];
  };
  const double transfers = of(EventKind::kCollective) + of(EventKind::kSend) +
                           of(EventKind::kReceive);
  std::array<double, 7> parts = {
      of(EventKind::kForward) + of(EventKind::kBackward) - waits_inside,
      of(EventKind::kWait),
      transfers,
      bubble,
      of(EventKind::kData),
      of(EventKind::kOptimizer),
      total};
  sum_over(mesh.world(), parts);
  const double whole = std::max(parts[6], 1e-12);
  TimeShares shares{.compute = parts[0] / whole,
                    .exposed_comm = parts[1] / whole,
                    .total_comm = parts[2] / whole,
                    .bubble = parts[3] / whole,
                    .data = parts[4] / whole,
                    .optimizer = parts[5] / whole};
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
