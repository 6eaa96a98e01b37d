// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "triax/base/error.h"
#include "triax/comm/local_channel.h"
#include "triax/comm/local_collective.h"
#include "triax/comm/local_group.h"
#include "triax/comm/local_rank.h"
#include "triax/comm/work_state.h"

namespace triax {

namespace {

class LocalWork;

class LocalGroup : public Group {
 public:
  explicit LocalGroup(std::shared_ptr<LocalGroupState> state)
      : state_(std::move(state)) {}

  int rank() const override { return state_->rank; }
  int size() const override { return state_->size(); }
  const std::string& name() const override { return state_->name; }
  int world_rank(int rank) const override {
    return state_->world_ranks.at(size_t(rank));
  }
  std::unique_ptr<Group> split(int color,
                               int key,
                               const std::string& name,
                               CallSite site) override;
  void emulate(const LinkEmulation& link) override {
    state_->emulation = link;
    state_->link.set(link);
  }

 protected:
  void run(const Call& call) override;
  Work start(const Call& call) override;

 private:
  struct Issued {
    OpRecord record;
    Lane* lane = nullptr;
    int64_t start_ns = 0;
    int64_t send_end_ns = 0;
  };
  Issued issue(const Call& call);
  OpRecord make_record(const Call& call) const;
  Recorder::Tags tags(const Call& call) const;
  std::unique_ptr<LocalOp> make_op(const Call& call, const Issued& issued);
  std::shared_ptr<LocalWork> submit(const Call& call,
                                    const Issued& issued,
                                    bool needs_thread);

  std::shared_ptr<LocalGroupState> state_;
};

EventKind event_kind(OpKind op) {
  return op == OpKind::kSend      ? EventKind::kSend
         : op == OpKind::kReceive ? EventKind::kReceive
                                  : EventKind::kCollective;
}

class LocalWork : public Work::State {
 public:
  LocalWork(std::shared_ptr<LocalGroupState> group, Lane& lane)
      : group_(std::move(group)), lane_(lane) {}

  void wait() override {
    if (!started.is_done.load()) {
      LocalRank& context = *group_->context;
      const int64_t start_ns = now_ns();
      context.board->begin(context.rank, started.op->record(), start_ns);
      const Recorder::Span exposed = context.recorder.span_at(
          EventKind::kWait, {.group = group_->name_id}, start_ns);
      stand_by(start_ns);
      context.board->end(context.rank, now_ns());
    }
    if (started.error) {
      std::rethrow_exception(started.error);
    }
  }
  bool is_done() const override { return started.is_done.load(); }

  /// Blocks until it is done, with an error too.
  void stand_by(int64_t start_ns) {
    LocalRank& context = *group_->context;
    Progress::Driver driver(context.progress);
    try {
      context.stand_by(
          *started.op, lane_.num_moves, start_ns, [&](int64_t& until_ns) {
            const bool has_moved = driver.drive(until_ns);
            return started.is_done.load() ? Look::kReady
                   : has_moved            ? Look::kMoved
                                          : Look::kIdle;
          });
    } catch (const Error&) {
      // The world has failed: the next steps take every operation off.
      int64_t until_ns = 0;
      while (!started.is_done.load()) {
        driver.drive(until_ns);
      }
    }
  }

  StartedOp started;

 private:
  const std::shared_ptr<LocalGroupState> group_;
  Lane& lane_;
};

OpRecord LocalGroup::make_record(const Call& call) const {
  OpRecord record;
  record.op = call.op;
  record.dtype = call.in.dtype;
  record.reduce_op = call.reduce_op;
  record.peer = call.peer;
  record.peer_world = call.peer < 0 ? -1 : world_rank(call.peer);
  record.name = state_->name_id;
  record.site = state_->context->board->site_id(call.site);
  record.group = state_->offset;
  record.numel = call.op == OpKind::kReduceScatter ? call.out.numel
                 : call.op == OpKind::kAllToAll    ? call.in.numel / size()
                                                   : call.in.numel;
  return record;
}

Recorder::Tags LocalGroup::tags(const Call& call) const {
  return {.group = state_->name_id,
          .bytes = std::max(call.in.nbytes(), call.out.nbytes())};
}

LocalGroup::Issued LocalGroup::issue(const Call& call) {
  LocalRank& context = *state_->context;
  context.board->throw_if_failed();
  context.note_issuer();
  Issued issued{make_record(call), &state_->collectives, now_ns(), 0};
  uint64_t counter = state_->collective_counter(rank());
  if (call.op == OpKind::kSend) {
    counter = state_->send_counter(rank(), call.peer);
    issued.lane = &state_->sends[size_t(call.peer)];
  } else if (call.op == OpKind::kReceive) {
    counter = state_->receive_counter(rank(), call.peer);
    issued.lane = &state_->receives[size_t(call.peer)];
  }
  std::atomic<uint64_t>& count = context.board->counter(counter);
  issued.record.number = int64_t(count.load(std::memory_order_relaxed));
  count.store(uint64_t(issued.record.number) + 1, std::memory_order_release);
  if (call.op == OpKind::kSend && state_->link.is_on()) {
    issued.send_end_ns = state_->link.reserve(
        issued.start_ns,
        state_->link.cost_ns(
            call.op, size(), call.in.nbytes(), issued.record.number));
  }
  return issued;
}

std::unique_ptr<LocalOp> LocalGroup::make_op(const Call& call,
                                             const Issued& issued) {
  if (call.op == OpKind::kSend) {
    return std::make_unique<LocalSend>(
        *state_, issued.record, call.in, issued.send_end_ns);
  }
  if (call.op == OpKind::kReceive) {
    return std::make_unique<LocalReceive>(*state_, issued.record, call.out);
  }
  return std::make_unique<LocalCollective>(
      *state_, issued.record, call.in, call.out, issued.start_ns);
}

void LocalGroup::run(const Call& call) {
  LocalRank& context = *state_->context;
  const Issued issued = issue(call);
  context.board->begin(context.rank, issued.record, issued.start_ns);
  Recorder::Span span = context.recorder.span_at(
      event_kind(call.op), tags(call), issued.start_ns);
  Recorder::Span exposed = context.recorder.span_at(
      EventKind::kWait, {.group = state_->name_id}, issued.start_ns);
  if (issued.lane->num_queued.load() > 0) {
    const std::shared_ptr<LocalWork> work = submit(call, issued, false);
    work->stand_by(issued.start_ns);
    if (work->started.error) {
      std::rethrow_exception(work->started.error);
    }
  } else {
    const std::unique_ptr<LocalOp> op = make_op(call, issued);
    std::atomic<int64_t>& num_moves = issued.lane->num_moves;
    const auto advance = [&](int64_t& until_ns) {
      const bool has_moved = op->advance();
      if (has_moved) {
        num_moves.fetch_add(1, std::memory_order_relaxed);
      }
      until_ns = std::min(until_ns, op->wake_ns());
      return op->is_done() ? Look::kReady
             : has_moved   ? Look::kMoved
                           : Look::kIdle;
    };
    context.stand_by(*op, num_moves, issued.start_ns, advance);
  }
  const int64_t end_ns = now_ns();
  span.end_at(end_ns);
  exposed.end_at(end_ns);
  context.board->end(context.rank, end_ns);
}

std::shared_ptr<LocalWork> LocalGroup::submit(const Call& call,
                                              const Issued& issued,
                                              bool needs_thread) {
  auto work = std::make_shared<LocalWork>(state_, *issued.lane);
  StartedOp& started = work->started;
  started.op = make_op(call, issued);
  if (needs_thread) {
    started.span.emplace(state_->context->recorder.span_at(
        event_kind(call.op), tags(call), issued.start_ns));
  }
  state_->context->progress.submit(*issued.lane, started, needs_thread);
  return work;
}

Work LocalGroup::start(const Call& call) {
  return Work(submit(call, issue(call), true));
}

/// What a rank says in a split, and what it is told.
struct SplitEntry {
  int64_t color = -1;
  int64_t key = 0;
  int64_t name = 0;  // on the Board
  int64_t block = 0;
};

std::unique_ptr<Group> LocalGroup::split(int color,
                                         int key,
                                         const std::string& name,
                                         CallSite site) {
  constexpr int64_t kWords = sizeof(SplitEntry) / sizeof(int64_t);
  LocalRank& context = *state_->context;
  SplitEntry mine{color, key, context.board->name_id(name), 0};
  std::vector<SplitEntry> entries(state_->world_ranks.size());
  const auto exchange = [&] {
    const ConstBuffer in{&mine, kWords, DType::kInt64};
    const Buffer out{entries.data(), kWords * size(), DType::kInt64};
    size() == 1 ? void(entries[0] = mine)
                : run({OpKind::kSplit, in, out, ReduceOp::kSum, -1, site});
  };
  exchange();
  std::vector<int> members;  // in this group
  for (int other = 0; other < size(); ++other) {
    const SplitEntry& entry = entries[size_t(other)];
    if (color >= 0 && entry.color == color) {
      members.push_back(other);
      if (entry.name != mine.name) {
        context.fail(detail::join("split of group ",
                                  this->name(),
                                  ": rank ",
                                  world_rank(other),
                                  " calls the group of color ",
                                  color,
                                  " ",
                                  context.board->name(int32_t(entry.name)),
                                  ", rank ",
                                  context.rank,
                                  " calls it ",
                                  name,
                                  "; a group has one name"));
      }
    }
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return entries[size_t(a)].key < entries[size_t(b)].key;
  });
  const bool is_first = !members.empty() && members.front() == rank();
  if (is_first) {
    mine.block = int64_t(
        prepare_block(*context.arena, *context.board, int(members.size())));
  }
  exchange();
  if (members.empty()) {
    return nullptr;
  }
  std::vector<int> world_ranks;
  for (int member : members) {
    world_ranks.push_back(world_rank(member));
  }
  const auto here = std::find(members.begin(), members.end(), rank());
  auto group = std::make_unique<LocalGroup>(std::make_shared<LocalGroupState>(
      state_->context,
      name,
      int(here - members.begin()),
      std::move(world_ranks),
      uint64_t(entries[size_t(members.front())].block)));
  group->emulate(state_->emulation);
  return group;
}

}  // namespace

LocalWorld::LocalWorld(int world_size, LocalOptions options)
    : world_size_(world_size), options_(std::move(options)) {
  TRIAX_CHECK(world_size > 0, "world size ", world_size);
  if (!options_.board) {
    options_.board = Board::create(world_size);
  }
  TRIAX_CHECK(options_.board->world_size() >= world_size, "board too small");
  arena_ = std::make_shared<Arena>(world_size);
  block_ = prepare_block(*arena_, *options_.board, world_size);
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Group> LocalWorld::join(int rank) const {
  TRIAX_CHECK(rank >= 0 && rank < world_size_, "rank ", rank);
  options_.board->set_pid(rank, getpid());
  std::vector<int> world_ranks(size_t(world_size_), 0);
  for (int other = 0; other < world_size_; ++other) {
    world_ranks[size_t(other)] = other;
  }
  return std::make_unique<LocalGroup>(std::make_shared<LocalGroupState>(
      std::make_shared<LocalRank>(
          arena_, options_.board, rank, options_.deadline_seconds),
      "world",
      rank,
      std::move(world_ranks),
      block_));
}

std::shared_ptr<LocalWorld> make_local_world(int world_size,
                                             LocalOptions options) {
  return std::make_shared<LocalWorld>(world_size, std::move(options));
}

}  // namespace triax
