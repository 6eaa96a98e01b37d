// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "triax/comm/board.h"

namespace triax {

enum class EventKind : uint8_t {
  kForward,
  kBackward,
  kWeightGradient,
  kRecompute,
  kSend,        // a message on its way, beside compute or not
  kReceive,     // the same, at its other end
  kCollective,  // a collective on its way, beside compute or not
  kWait,        // a thread of the rank stood still for communication: exposed
  kOptimizer,
  kData,
  kOffload,
  kCheckpoint,
  kOther,
};
inline constexpr int kNumEventKinds = int(EventKind::kOther) + 1;

/// "forward", "backward", "weight_gradient", "recompute", "send", "recv",
/// "collective", "wait", "optimizer", "data", "offload", "checkpoint",
/// "other".
std::string_view event_kind_name(EventKind kind);

struct Event {
  int64_t step = -1;
  EventKind kind = EventKind::kOther;
  int32_t microbatch = -1;
  int32_t stage = -1;
  int32_t group = 0;  // Board::name_id, 0 for none
  int64_t bytes = 0;
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;    // 0 while it goes on
};

/// One rank's ring of events in the Board's memory: it survives the rank.
/// Events of the last kEventCapacity are kept. Several threads of the rank may
/// write at once; any process may read at any time.
class Recorder {
 public:
  struct Tags {
    int32_t microbatch = -1;
    int32_t stage = -1;
    int32_t group = 0;
    int64_t bytes = 0;
  };

  /// An event that lasts as long as the object; it can be read from the start
  /// on, so that a crash inside it can be told.
  class Span {
   public:
    Span(Span&& other) noexcept;
    Span& operator=(Span&&) = delete;
    ~Span() { end(); }
    /// Ends it before the object does.
    void end();
    void end_at(int64_t time_ns);

   private:
    friend class Recorder;
    Span(EventRing* ring, uint64_t index) : ring_(ring), index_(index) {}
    EventRing* ring_;
    uint64_t index_;
  };

  Recorder(std::shared_ptr<Board> board, int rank);

  [[nodiscard]] Span span(EventKind kind, Tags tags);
  [[nodiscard]] Span span(EventKind kind) { return span(kind, Tags{}); }
  [[nodiscard]] Span span_at(EventKind kind, Tags tags, int64_t start_ns);
  /// An event that is over.
  void add(EventKind kind, Tags tags, int64_t start_ns, int64_t end_ns);

  /// The number of events written so far; the last has this index - 1.
  uint64_t num_events() const noexcept;
  /// False where the event is no longer, or not yet, in the ring. Neither
  /// allocates nor locks: may be used in a signal handler.
  bool read(uint64_t index, Event& event) const noexcept;
  /// What the ring holds, oldest first.
  std::vector<Event> events() const;
  /// The event that started last.
  std::optional<Event> last_event() const;
  /// Seconds of the ended events of the last `num_steps` steps that have any,
  /// by kind; the step under way counts as one.
  std::array<double, kNumEventKinds> seconds_by_kind(int64_t num_steps) const;

 private:
  std::shared_ptr<Board> board_;
  int rank_;
  EventRing* ring_;
};

inline constexpr uint64_t kEventCapacity = 8192;

}  // namespace triax
