// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/board.h"

#include <cstring>
#include <new>
#include <utility>

#include "triax/base/error.h"
#include "triax/comm/board_layout.h"

namespace triax {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// A lock that a process may die in: it is then taken by force after 100 ms.
class BoardLock {
 public:
  explicit BoardLock(std::atomic<uint32_t>& lock) : lock_(lock) {
    const int64_t until = now_ns() + 100'000'000;
    while (lock_.exchange(1, std::memory_order_acquire) != 0 &&
           now_ns() < until) {
      sched_yield();
    }
  }
  BoardLock(const BoardLock&) = delete;
  ~BoardLock() { lock_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t>& lock_;
};

/// The index of `text` among the first `count` texts, added where it is new;
/// the last index stands for all that find no room.
template <class Table>
uint32_t find_or_add(Table& table,
                     std::atomic<uint32_t>& count,
                     std::atomic<uint32_t>& lock,
                     const std::string& text) {
  BoardLock guard(lock);
  const uint32_t num_texts = count.load();
  for (uint32_t i = 0; i < num_texts; ++i) {
    if (table[i].load() == text) {
      return i;
    }
  }
  const uint32_t last = uint32_t(table.size()) - 1;
  table[std::min(num_texts, last)].store(num_texts < last ? text : "other");
  count.store(std::min(num_texts + 1, last));
  return std::min(num_texts, last);
}

/// An address may be that of an earlier board.
uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

std::shared_ptr<Board> Board::create(int world_size) {
  TRIAX_CHECK(world_size > 0, "world size ", world_size);
  auto layout = std::unique_ptr<Layout>(new Layout{
      SharedMemory::create("triax-board", Layout::nbytes(world_size))});
  BoardHeader* header = new (&layout->header()) BoardHeader();
  header->world_size.store(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    // The rest of the area is right while zero, and costs no memory.
    layout->rank(rank).step.store(-1);
  }
  header->magic.store(BoardHeader::kMagic);
  auto board = std::shared_ptr<Board>(new Board(std::move(layout)));
  board->name_id("");
  board->layout_->header().sites[0].store("?");
  board->layout_->header().num_sites.store(1);
  return board;
}

std::shared_ptr<Board> Board::attach(int fd) {
  auto layout = std::unique_ptr<Layout>(new Layout{SharedMemory::attach(fd)});
  const bool is_board = layout->memory.nbytes() >= Layout::nbytes(1) &&
                        layout->header().magic.load() == BoardHeader::kMagic &&
                        layout->memory.nbytes() ==
                            Layout::nbytes(layout->header().world_size.load());
  if (!is_board) {
    throw Error("board: descriptor ",
                fd,
                " is not a board of this version of triax; launcher and ranks "
                "must be of one build");
  }
  return std::shared_ptr<Board>(new Board(std::move(layout)));
}

Board::Board(std::unique_ptr<Layout> layout)
    : layout_(std::move(layout)), number_(next_number()) {}
Board::~Board() = default;

int Board::fd() const {
  return layout_->memory.fd();
}
int Board::world_size() const {
  return layout_->header().world_size.load();
}

void Board::set_pid(int rank, pid_t pid) {
  layout_->rank(rank).pid.store(pid);
}
pid_t Board::pid(int rank) const {
  return layout_->rank(rank).pid.load();
}

void Board::set_coord(int rank, const std::string& text) {
  layout_->rank(rank).coord.store(text);
}

void Board::set_step(int rank, int64_t step) {
  layout_->rank(rank).step.store(step);
}
int64_t Board::step(int rank) const {
  return layout_->rank(rank).step.load();
}

void Board::set_finished(int rank) {
  layout_->rank(rank).is_finished.store(true);
}
bool Board::is_finished(int rank) const {
  return layout_->rank(rank).is_finished.load();
}

void Board::fail(int rank, const std::string& text) {
  RankArea& area = layout_->rank(rank);
  uint32_t state = 0;
  // A rank may have died between claiming and writing: then its text is ours.
  const bool is_mine = area.error_state.compare_exchange_strong(state, 1);
  for (int64_t until = now_ns() + 10'000'000;
       !is_mine && area.error_state.load() != 2 && now_ns() < until;) {
    sched_yield();
  }
  if (is_mine || area.error_state.load() != 2) {
    area.error.store(text);
    area.error_state.store(2);
  }
  int32_t none = -1;
  layout_->header().first_failed.compare_exchange_strong(none, rank);
  for (int other = 0; other < world_size(); ++other) {
    ring(bell(other));
  }
}

std::optional<std::string> Board::error(int rank) const {
  const RankArea& area = layout_->rank(rank);
  if (area.error_state.load() != 2) {
    return std::nullopt;
  }
  return area.error.load();
}

std::optional<int> Board::first_failed() const {
  const int32_t rank = layout_->header().first_failed.load();
  return rank < 0 ? std::nullopt : std::optional<int>(rank);
}

void Board::throw_if_failed() const {
  const int32_t rank = layout_->header().first_failed.load();
  if (rank >= 0) [[unlikely]] {
    throw Error(*error(rank));
  }
}

int32_t Board::name_id(const std::string& name) {
  BoardHeader& header = layout_->header();
  return int32_t(find_or_add(
      header.names, header.num_names, header.lock, name.substr(0, 40)));
}

std::string Board::name(int32_t id) const {
  return layout_->header().names[size_t(id) % BoardHeader::kMaxNames].load();
}

uint32_t Board::site_id(const CallSite& site) {
  struct Known {
    uint64_t board = 0;
    const char* file = nullptr;
    uint32_t line = 0;
    uint32_t id = 0;
  };
  static thread_local std::array<Known, 64> cache;
  const size_t hash = (uintptr_t(site.file_name()) >> 3) + site.line() * 31;
  Known& known = cache[hash % cache.size()];
  if (known.board != number_ || known.file != site.file_name() ||
      known.line != site.line()) {
    BoardHeader& header = layout_->header();
    std::string text =
        detail::join(base_name(site.file_name()), ":", site.line());
    const uint32_t id = find_or_add(
        header.sites, header.num_sites, header.lock, text.substr(0, 60));
    known = {number_, site.file_name(), site.line(), id};
  }
  return known.id;
}

std::string Board::site(uint32_t id) const {
  return layout_->header().sites[id % BoardHeader::kMaxSites].load();
}

uint64_t Board::add_counters(uint64_t count) {
  const uint64_t first = layout_->header().num_counters.fetch_add(count);
  if (first + count > Layout::kMaxCounters) {
    throw Error(
        "board: no room for the counters of one more group; split "
        "groups once, not in every step");
  }
  return first;
}

std::atomic<uint64_t>& Board::counter(uint64_t index) const {
  return layout_->counter(index);
}

Bell& Board::bell(int rank) const {
  return layout_->rank(rank).bell;
}
EventRing& Board::events(int rank) const {
  return layout_->rank(rank).events;
}

void Board::begin(int rank, const OpRecord& record, int64_t time_ns) {
  StoredStatus& status = layout_->rank(rank).status;
  const uint64_t epoch = status.epoch.load(kRelaxed);
  status.epoch.store(epoch + 1);
  status.op.store(record.op, kRelaxed);
  status.dtype.store(record.dtype, kRelaxed);
  status.reduce_op.store(record.reduce_op, kRelaxed);
  status.peer.store(record.peer, kRelaxed);
  status.peer_world.store(record.peer_world, kRelaxed);
  status.name.store(record.name, kRelaxed);
  status.site.store(record.site, kRelaxed);
  status.group.store(record.group, kRelaxed);
  status.number.store(record.number, kRelaxed);
  status.numel.store(record.numel, kRelaxed);
  status.has_record.store(true, kRelaxed);
  status.is_inside.store(true, kRelaxed);
  status.since_ns.store(time_ns, kRelaxed);
  status.epoch.store(epoch + 2, std::memory_order_release);
}

void Board::end(int rank, int64_t time_ns) {
  StoredStatus& status = layout_->rank(rank).status;
  const uint64_t epoch = status.epoch.load(kRelaxed);
  status.epoch.store(epoch + 1);
  status.is_inside.store(false, kRelaxed);
  status.since_ns.store(time_ns, kRelaxed);
  status.epoch.store(epoch + 2, std::memory_order_release);
}

void Board::set_waits_for(int rank,
                          int peer,
                          uint64_t counter,
                          uint64_t target) {
  StoredStatus& status = layout_->rank(rank).status;
  const uint64_t version = status.edge_version.load(kRelaxed);
  status.edge_version.store(version + 1);
  status.edge_peer.store(peer, kRelaxed);
  status.edge_counter.store(counter, kRelaxed);
  status.edge_target.store(target, kRelaxed);
  status.edge_epoch.store(status.epoch.load(kRelaxed), kRelaxed);
  status.edge_version.store(version + 2, std::memory_order_release);
}

}  // namespace triax
