// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "triax/base/error.h"
#include "triax/base/units.h"
#include "triax/comm/board.h"
#include "triax/comm/board_layout.h"

namespace triax {

namespace {

struct Status {
  uint64_t epoch = 0;
  int64_t since_ns = 0;
  bool is_inside = false;
  bool has_record = false;
  OpRecord record;
};

/// Nothing where the rank is just writing, or died while it wrote.
std::optional<Status> read_status(const StoredStatus& stored) {
  constexpr auto kAcquire = std::memory_order_acquire;
  for (int attempt = 0; attempt < 100; ++attempt) {
    Status status;
    status.epoch = stored.epoch.load();
    status.since_ns = stored.since_ns.load(kAcquire);
    status.is_inside = stored.is_inside.load(kAcquire);
    status.has_record = stored.has_record.load(kAcquire);
    status.record.op = stored.op.load(kAcquire);
    status.record.dtype = stored.dtype.load(kAcquire);
    status.record.reduce_op = stored.reduce_op.load(kAcquire);
    status.record.peer = stored.peer.load(kAcquire);
    status.record.peer_world = stored.peer_world.load(kAcquire);
    status.record.name = stored.name.load(kAcquire);
    status.record.site = stored.site.load(kAcquire);
    status.record.group = stored.group.load(kAcquire);
    status.record.number = stored.number.load(kAcquire);
    status.record.numel = stored.numel.load(kAcquire);
    if (status.epoch % 2 == 0 && stored.epoch.load() == status.epoch) {
      return status;
    }
    sched_yield();
  }
  return std::nullopt;
}

struct Edge {
  int rank = 0;
  int peer = 0;
  Status status;
};

bool is_same_call(const OpRecord& a, const OpRecord& b) {
  return a.op == b.op && a.numel == b.numel && a.dtype == b.dtype &&
         a.reduce_op == b.reduce_op && a.peer == b.peer;
}

std::string short_text(const Board& board, const OpRecord& record) {
  std::string text = detail::join(op_name(record.op), " #", record.number);
  if (is_message(record.op)) {
    text += detail::join(record.op == OpKind::kSend ? " to" : " from",
                         " rank ",
                         record.peer_world);
  }
  return detail::join(text,
                      " of group ",
                      board.name(record.name),
                      " at ",
                      board.site(record.site));
}

/// What `rank` waits for, where that has not come yet.
std::optional<Edge> read_edge(const Board& board,
                              const StoredStatus& stored,
                              int rank) {
  const std::optional<Status> status = read_status(stored);
  const uint64_t version = stored.edge_version.load();
  const uint64_t edge_epoch = stored.edge_epoch.load();
  const int peer = stored.edge_peer.load();
  const uint64_t counter = stored.edge_counter.load();
  const uint64_t target = stored.edge_target.load();
  const bool is_whole =
      version % 2 == 0 && stored.edge_version.load() == version;
  if (!status || !status->is_inside || !is_whole ||
      edge_epoch != status->epoch || board.counter(counter).load() >= target) {
    return std::nullopt;
  }
  return Edge{rank, peer, *status};
}

}  // namespace

std::string Board::describe(const OpRecord& record) const {
  std::string what;
  switch (record.op) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      what = detail::join(reduce_op_name(record.reduce_op), ", ");
      break;
    case OpKind::kBroadcast:
      what = detail::join("root ", record.peer, ", ");
      break;
    default:
      break;
  }
  if (record.op != OpKind::kBarrier && record.op != OpKind::kSplit) {
    what += detail::join(record.numel, " ", dtype_name(record.dtype));
  }
  const std::string rest = short_text(*this, record);
  const size_t name_length = op_name(record.op).size();
  return detail::join(
      rest.substr(0, name_length), "(", what, ")", rest.substr(name_length));
}

std::string Board::describe(int rank) const {
  const RankArea& area = layout_->rank(rank);
  std::string where = area.coord.load();
  if (pid(rank) != 0) {
    where += detail::join(where.empty() ? "" : "; ", "pid ", pid(rank));
  }
  std::string text = detail::join("rank ", rank);
  text += where.empty() ? ": " : detail::join(" (", where, "): ");
  if (step(rank) >= 0) {
    text += detail::join("step ", step(rank), ", ");
  }
  if (const std::optional<std::string> message = error(rank)) {
    return text + "failed: " + *message;
  }
  if (is_finished(rank)) {
    return text + "finished";
  }
  const std::optional<Status> status = read_status(area.status);
  if (!status) {
    return text + "between two operations";
  }
  if (!status->has_record) {
    return text + "no operation yet";
  }
  return detail::join(
      text,
      status->is_inside ? "in " : "computing since ",
      short_text(*this, status->record),
      " for ",
      format_duration(double(now_ns() - status->since_ns) * 1e-9));
}

std::optional<std::string> Board::diagnose() const {
  if (std::optional<std::string> mismatch = find_mismatch()) {
    return mismatch;
  }
  for (int rank = 0; rank < world_size(); ++rank) {
    if (std::optional<std::string> dead_end = find_dead_end(rank)) {
      return dead_end;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Board::find_mismatch() const {
  std::vector<std::pair<int, OpRecord>> inside;
  for (int rank = 0; rank < world_size(); ++rank) {
    const std::optional<Status> status =
        read_status(layout_->rank(rank).status);
    if (status && status->is_inside && !is_message(status->record.op)) {
      inside.emplace_back(rank, status->record);
    }
  }
  for (size_t i = 0; i < inside.size(); ++i) {
    for (size_t j = i + 1; j < inside.size(); ++j) {
      const OpRecord& a = inside[i].second;
      const OpRecord& b = inside[j].second;
      if (a.group == b.group && a.number == b.number && !is_same_call(a, b)) {
        return detail::join("rank ",
                            inside[i].first,
                            " called ",
                            describe(a),
                            " but rank ",
                            inside[j].first,
                            " called ",
                            describe(b),
                            "; every rank of a group must call the same "
                            "operations in the same order");
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> Board::find_dead_end(int rank) const {
  const auto holds_still = [&](const Edge& edge) {
    const std::optional<Edge> again =
        read_edge(*this, layout_->rank(edge.rank).status, edge.rank);
    return again && again->status.epoch == edge.status.epoch &&
           again->peer == edge.peer;
  };
  std::vector<Edge> path;
  int cycle_start = -1;
  for (int at = rank; cycle_start < 0;) {
    const std::optional<Edge> edge =
        read_edge(*this, layout_->rank(at).status, at);
    if (!edge) {
      return std::nullopt;
    }
    path.push_back(*edge);
    at = edge->peer;
    // The edge must be seen to hold after the peer was seen to be finished.
    if (is_finished(at) && !error(at) && holds_still(*edge)) {
      return detail::join("rank ",
                          edge->rank,
                          " waits in ",
                          short_text(*this, edge->status.record),
                          " for rank ",
                          at,
                          ", which has finished without it (",
                          describe(at),
                          ")");
    }
    for (size_t i = 0; i < path.size(); ++i) {
      if (path[i].rank == at) {
        cycle_start = int(i);
      }
    }
  }
  path.erase(path.begin(), path.begin() + cycle_start);
  // Seen twice with equal epochs, all edges held at one moment: nobody in the
  // cycle can ever issue what the one before waits for.
  std::string text = "ranks wait for each other in a circle: ";
  for (size_t i = 0; i < path.size(); ++i) {
    if (!holds_still(path[i])) {
      return std::nullopt;
    }
    text += detail::join(i == 0 ? "" : ", ",
                         "rank ",
                         path[i].rank,
                         " waits in ",
                         short_text(*this, path[i].status.record),
                         " for rank ",
                         path[i].peer);
  }
  return text;
}

}  // namespace triax
