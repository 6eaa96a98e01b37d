// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local_collective.h"

#include <algorithm>
#include <cstring>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/comm/reduce.h"

namespace triax {

namespace {

constexpr int64_t kCacheLine = 64;
/// An all_reduce of no more bytes takes one phase. Measured on 2 cores.
constexpr int64_t kOneShotBytes = 32 << 10;

bool is_same_call(const OpRecord& a, const OpRecord& b) {
  return a.op == b.op && a.numel == b.numel && a.dtype == b.dtype &&
         a.reduce_op == b.reduce_op && a.peer == b.peer && a.number == b.number;
}

}  // namespace

LocalCollective::LocalCollective(LocalGroupState& group,
                                 const OpRecord& record,
                                 ConstBuffer in,
                                 Buffer out,
                                 int64_t issued_ns)
    : LocalOp(record),
      group_(group),
      in_(in),
      out_(out),
      issued_ns_(issued_ns),
      element_bytes_(dtype_bytes(in.dtype)) {
  choose_chunks();
}

void LocalCollective::choose_chunks() {
  const int64_t size = group_.size();
  const int64_t line = kCacheLine / element_bytes_;
  chunk_numel_ = kChunkBytes / element_bytes_;
  int64_t num_more_phases = 0;
  switch (record().op) {
    case OpKind::kAllReduce:
      part_numel_ = in_.numel;
      is_one_shot_ = in_.nbytes() <= kOneShotBytes;
      num_more_phases = is_one_shot_ ? 0 : 1;
      break;
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll:
      part_numel_ = in_.numel / size;
      chunk_numel_ = chunk_numel_ / size / line * line;
      break;
    default:
      part_numel_ = in_.numel;
      break;
  }
  num_chunks_ = std::max<int64_t>(1, divide_up(part_numel_, chunk_numel_));
  num_phases_ = num_chunks_ + num_more_phases;
}

LocalCollective::Span LocalCollective::chunk(int64_t index) const {
  const int64_t start = index * chunk_numel_;
  return {start, std::min(chunk_numel_, part_numel_ - start)};
}

LocalCollective::Span LocalCollective::share(const Span& chunk,
                                             int rank) const {
  const int64_t line = kCacheLine / element_bytes_;
  const int64_t numel =
      divide_up(divide_up(chunk.numel, group_.size()), line) * line;
  const int64_t start = std::min(rank * numel, chunk.numel);
  return {start, std::min(numel, chunk.numel - start)};
}

const std::byte* LocalCollective::in_at(int64_t element) const {
  return static_cast<const std::byte*>(in_.data) + element * element_bytes_;
}

std::byte* LocalCollective::out_at(int64_t element) const {
  return static_cast<std::byte*>(out_.data) + element * element_bytes_;
}

void LocalCollective::copy(void* to, const void* from, int64_t numel) const {
  if (numel > 0 && to != from) {
    std::memcpy(to, from, size_t(numel * element_bytes_));
  }
}

bool LocalCollective::advance() {
  if (is_through_) {
    return finish_at(end_ns_);
  }
  if (phase_ == 0) {
    base_ = group_.phase;
    write_header();
  } else {
    if (!have_all_reached(base_ + phase_)) {
      return false;
    }
    if (phase_ == 1) {
      read_headers();
    }
  }
  work();
  if (phase_ < num_phases_) {
    publish();
    return true;
  }
  // Taking out needs no phase of its own: the next operation's first phase
  // writes to the other half of the block.
  group_.phase = base_ + num_phases_;
  is_through_ = true;
  finish_at(end_ns_);
  return true;
}

bool LocalCollective::have_all_reached(int64_t phase) {
  while (first_late_ < group_.size() &&
         group_.block.member(first_late_).progress.load() >= phase) {
    ++first_late_;
  }
  return first_late_ == group_.size();
}

void LocalCollective::publish() {
  ++phase_;
  first_late_ = 0;
  awaited_progress_.store(base_ + phase_, std::memory_order_relaxed);
  group_.block.member(group_.rank).progress.store(base_ + phase_);
  for (Bell* bell : group_.other_bells) {
    ring(*bell);
  }
}

void LocalCollective::write_header() {
  PhaseHeader& header =
      group_.block.member(group_.rank).headers[size_t(base_ & 1)];
  header.record = record();
  header.ready_ns = group_.link.is_on() ? group_.link.start_ns(issued_ns_) : 0;
}

void LocalCollective::read_headers() {
  int64_t start_ns = 0;
  for (int other = 0; other < group_.size(); ++other) {
    const PhaseHeader& header =
        group_.block.member(other).headers[size_t(base_ & 1)];
    start_ns = std::max(start_ns, header.ready_ns);
    if (is_same_call(record(), header.record)) [[likely]] {
      continue;
    }
    const Board& board = *group_.context->board;
    const bool is_first = group_.rank < other;
    const int ranks[] = {group_.world_ranks[size_t(group_.rank)],
                         group_.world_ranks[size_t(other)]};
    group_.context->fail(detail::join(
        "rank ",
        ranks[is_first ? 0 : 1],
        " called ",
        board.describe(is_first ? record() : header.record),
        " but rank ",
        ranks[is_first ? 1 : 0],
        " called ",
        board.describe(is_first ? header.record : record()),
        "; every rank of a group must call the same operations in the same "
        "order"));
  }
  if (group_.link.is_on()) {
    const int64_t full_bytes = std::max(in_.nbytes(), out_.nbytes());
    end_ns_ =
        start_ns + group_.link.cost_ns(
                       record().op, group_.size(), full_bytes, record().number);
    group_.link.occupy(end_ns_);
  }
}

void LocalCollective::work() {
  const int64_t reduced = phase_ - 1;
  const bool must_reduce = record().op == OpKind::kAllReduce ||
                           record().op == OpKind::kReduceScatter;
  const bool has_two_stages =
      record().op == OpKind::kAllReduce && !is_one_shot_;
  const int64_t taken = has_two_stages ? phase_ - 2 : phase_ - 1;
  if (phase_ < num_chunks_) {
    stage(chunk(phase_));
  }
  if (must_reduce && reduced >= 0 && reduced < num_chunks_) {
    reduce_chunk(chunk(reduced));
  }
  if (taken >= 0 && taken < num_chunks_) {
    take_out(chunk(taken));
  }
}

void LocalCollective::stage(const Span& chunk) {
  const int rank = group_.rank;
  std::byte* to = group_.block.input(rank, base_ + phase_);
  switch (record().op) {
    case OpKind::kAllReduce: {
      const Span mine = is_one_shot_ ? Span{} : share(chunk, rank);
      const int64_t after = mine.start + mine.numel;
      copy(to, in_at(chunk.start), mine.start);
      copy(to + after * element_bytes_,
           in_at(chunk.start + after),
           chunk.numel - after);
      break;
    }
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll:
      stage_parts(chunk);
      break;
    case OpKind::kBroadcast:
      if (rank == record().peer) {
        copy(to, in_at(chunk.start), chunk.numel);
      }
      break;
    default:
      copy(to, in_at(chunk.start), chunk.numel);
      copy(out_at(rank * part_numel_ + chunk.start),
           in_at(chunk.start),
           chunk.numel);
      break;
  }
}

void LocalCollective::stage_parts(const Span& chunk) {
  std::byte* to = group_.block.input(group_.rank, base_ + phase_);
  for (int part = 0; part < group_.size(); ++part) {
    const int64_t start = part * part_numel_ + chunk.start;
    if (part != group_.rank) {
      copy(
          to + part * chunk_numel_ * element_bytes_, in_at(start), chunk.numel);
    } else if (record().op == OpKind::kAllToAll) {
      copy(out_at(start), in_at(start), chunk.numel);
    }
  }
}

void LocalCollective::reduce_chunk(const Span& chunk) {
  const int rank = group_.rank;
  const bool is_scatter = record().op == OpKind::kReduceScatter;
  const bool has_two_stages = !is_scatter && !is_one_shot_;
  const Span mine = is_scatter     ? Span{0, chunk.numel}
                    : is_one_shot_ ? chunk
                                   : share(chunk, rank);
  if (mine.numel == 0) {
    return;
  }
  const int64_t staged_at = is_scatter ? rank * chunk_numel_ : mine.start;
  const int64_t own_at =
      (is_scatter ? rank * part_numel_ : 0) + chunk.start + mine.start;
  std::vector<const void*> inputs(size_t(group_.size()));
  for (int other = 0; other < group_.size(); ++other) {
    inputs[size_t(other)] =
        other == rank ? in_at(own_at)
                      : group_.block.input(other, base_ + phase_ - 1) +
                            staged_at * element_bytes_;
  }
  reduce(inputs.data(),
         group_.size(),
         mine.numel,
         in_.dtype,
         record().reduce_op,
         out_at(chunk.start + mine.start),
         has_two_stages ? group_.block.result(rank, base_ + phase_) : nullptr);
}

void LocalCollective::take_out(const Span& chunk) {
  const int64_t written = base_ + phase_ - 1;
  for (int step = 1; step < group_.size(); ++step) {
    const int other = (group_.rank + step) % group_.size();
    const std::byte* staged = group_.block.input(other, written);
    switch (record().op) {
      case OpKind::kAllReduce: {
        const Span theirs = is_one_shot_ ? Span{} : share(chunk, other);
        copy(out_at(chunk.start + theirs.start),
             group_.block.result(other, written),
             theirs.numel);
        break;
      }
      case OpKind::kAllGather:
      case OpKind::kSplit:
        copy(out_at(other * part_numel_ + chunk.start), staged, chunk.numel);
        break;
      case OpKind::kAllToAll:
        copy(out_at(other * part_numel_ + chunk.start),
             staged + group_.rank * chunk_numel_ * element_bytes_,
             chunk.numel);
        break;
      case OpKind::kBroadcast:
        if (other == record().peer) {
          copy(out_at(chunk.start), staged, chunk.numel);
        }
        break;
      default:
        break;
    }
  }
}

std::vector<Awaited> LocalCollective::awaited() const {
  std::vector<Awaited> ranks;
  const uint64_t target = uint64_t(record().number) + 1;
  const int64_t progress = awaited_progress_.load(std::memory_order_relaxed);
  for (int other = 0; other < group_.size(); ++other) {
    const uint64_t counter = group_.collective_counter(other);
    const bool is_late = group_.block.member(other).progress.load() < progress;
    if (is_late || group_.context->board->counter(counter).load() < target) {
      ranks.push_back({group_.world_ranks[size_t(other)], counter, target});
    }
  }
  return ranks;
}

}  // namespace triax
