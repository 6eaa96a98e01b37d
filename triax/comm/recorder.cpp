// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/recorder.h"

#include <set>
#include <utility>

#include "triax/base/error.h"
#include "triax/comm/board_layout.h"

namespace triax {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

StoredEvent& slot(EventRing& ring, uint64_t index) {
  return ring.events[index % kEventCapacity];
}

}  // namespace

std::string_view event_kind_name(EventKind kind) {
  constexpr std::array<std::string_view, kNumEventKinds> kNames = {
      "forward",
      "backward",
      "weight_gradient",
      "recompute",
      "send",
      "recv",
      "collective",
      "wait",
      "optimizer",
      "data",
      "offload",
      "checkpoint",
      "other"};
  return kNames[size_t(kind)];
}

Recorder::Span::Span(Span&& other) noexcept
    : ring_(std::exchange(other.ring_, nullptr)), index_(other.index_) {}

void Recorder::Span::end() {
  if (ring_ != nullptr) {
    end_at(now_ns());
  }
}

void Recorder::Span::end_at(int64_t time_ns) {
  if (ring_ == nullptr) {
    return;
  }
  StoredEvent& event = slot(*std::exchange(ring_, nullptr), index_);
  if (event.ticket.load(std::memory_order_acquire) == index_ + 1) {
    event.end_ns.store(time_ns, kRelaxed);
  }
}

Recorder::Recorder(std::shared_ptr<Board> board, int rank)
    : board_(std::move(board)), rank_(rank), ring_(&board_->events(rank)) {}

Recorder::Span Recorder::span(EventKind kind, Tags tags) {
  return span_at(kind, tags, now_ns());
}

Recorder::Span Recorder::span_at(EventKind kind, Tags tags, int64_t start_ns) {
  const uint64_t index = ring_->num_started.fetch_add(1);
  StoredEvent& event = slot(*ring_, index);
  event.ticket.store(0, std::memory_order_release);
  event.step.store(board_->step(rank_), kRelaxed);
  event.kind.store(uint8_t(kind), kRelaxed);
  event.microbatch.store(tags.microbatch, kRelaxed);
  event.stage.store(tags.stage, kRelaxed);
  event.group.store(tags.group, kRelaxed);
  event.bytes.store(tags.bytes, kRelaxed);
  event.start_ns.store(start_ns, kRelaxed);
  event.end_ns.store(0, kRelaxed);
  event.ticket.store(index + 1, std::memory_order_release);
  return Span(ring_, index);
}

void Recorder::add(EventKind kind,
                   Tags tags,
                   int64_t start_ns,
                   int64_t end_ns) {
  span_at(kind, tags, start_ns).end_at(end_ns);
}

uint64_t Recorder::num_events() const noexcept {
  return ring_->num_started.load(std::memory_order_acquire);
}

bool Recorder::read(uint64_t index, Event& event) const noexcept {
  const StoredEvent& stored = slot(*ring_, index);
  if (stored.ticket.load(std::memory_order_acquire) != index + 1) {
    return false;
  }
  event.step = stored.step.load(std::memory_order_acquire);
  event.kind = EventKind(stored.kind.load(std::memory_order_acquire));
  event.microbatch = stored.microbatch.load(std::memory_order_acquire);
  event.stage = stored.stage.load(std::memory_order_acquire);
  event.group = stored.group.load(std::memory_order_acquire);
  event.bytes = stored.bytes.load(std::memory_order_acquire);
  event.start_ns = stored.start_ns.load(std::memory_order_acquire);
  event.end_ns = stored.end_ns.load(std::memory_order_acquire);
  return stored.ticket.load(std::memory_order_acquire) == index + 1;
}

std::vector<Event> Recorder::events() const {
  const uint64_t end = num_events();
  std::vector<Event> events;
  for (uint64_t i = end > kEventCapacity ? end - kEventCapacity : 0; i < end;
       ++i) {
    Event event;
    if (read(i, event)) {
      events.push_back(event);
    }
  }
  return events;
}

std::optional<Event> Recorder::last_event() const {
  const uint64_t end = num_events();
  for (uint64_t i = end; i > 0 && i + kEventCapacity > end; --i) {
    Event event;
    if (read(i - 1, event)) {
      return event;
    }
  }
  return std::nullopt;
}

std::array<double, kNumEventKinds> Recorder::seconds_by_kind(
    int64_t num_steps) const {
  std::array<double, kNumEventKinds> seconds{};
  std::set<int64_t> steps;
  const uint64_t end = num_events();
  for (uint64_t i = end; i > 0 && i + kEventCapacity > end; --i) {
    Event event;
    if (!read(i - 1, event) || event.end_ns == 0) {
      continue;
    }
    if (!steps.contains(event.step) && int64_t(steps.size()) == num_steps) {
      break;
    }
    steps.insert(event.step);
    seconds[size_t(event.kind)] += double(event.end_ns - event.start_ns) * 1e-9;
  }
  return seconds;
}

}  // namespace triax
