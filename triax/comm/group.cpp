// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/group.h"

#include <cstring>
#include <utility>

#include "triax/base/error.h"
#include "triax/comm/work_state.h"

namespace triax {

Work::Work() = default;
Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
  Work old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  try {
    wait();
  } catch (const std::exception&) {
    // As group.h says: only wait() throws.
  }
}

void Work::wait() {
  if (state_) {
    state_->wait();
  }
}

bool Work::is_done() const {
  return !state_ || state_->is_done();
}

void Group::refuse(const Call& call, const std::string& rule) const {
  const char* slash = std::strrchr(call.site.file_name(), '/');
  throw Error(op_name(call.op),
              " of group ",
              name(),
              " at ",
              slash == nullptr ? call.site.file_name() : slash + 1,
              ":",
              call.site.line(),
              ": ",
              rule);
}

void Group::check(const Call& call) const {
  const ConstBuffer& in = call.in;
  const Buffer& out = call.out;
  if (in.numel < 0 || out.numel < 0) {
    refuse(call, "a count must not be negative");
  }
  if (in.dtype != out.dtype) {
    refuse(call, "both buffers must have one dtype");
  }
  const bool must_split = call.op == OpKind::kAllGather ||
                          call.op == OpKind::kReduceScatter ||
                          call.op == OpKind::kAllToAll;
  const int64_t parts = size();
  if (must_split) {
    const bool fits = call.op == OpKind::kAllGather
                          ? out.numel == parts * in.numel
                      : call.op == OpKind::kReduceScatter
                          ? in.numel == parts * out.numel
                          : in.numel == out.numel && in.numel % parts == 0;
    if (!fits) {
      refuse(call,
             detail::join(in.numel,
                          " elements in and ",
                          out.numel,
                          " out do not fit a group of ",
                          parts,
                          " ranks; pad the buffer"));
    }
  }
  const bool has_peer = call.op == OpKind::kBroadcast || is_message(call.op);
  if (has_peer && (call.peer < 0 || call.peer >= size())) {
    refuse(call,
           detail::join("rank ", call.peer, " is not in a group of ", parts));
  }
  if (is_message(call.op) && call.peer == rank()) {
    refuse(call, "a rank cannot be its own peer; copy the buffer instead");
  }
}

bool Group::is_done_alone(const Call& call) const {
  check(call);
  if (size() > 1) {
    return false;
  }
  if (call.in.data != call.out.data && call.in.numel > 0) {
    std::memmove(call.out.data, call.in.data, size_t(call.in.nbytes()));
  }
  return true;
}

void Group::dispatch(const Call& call) {
  if (!is_done_alone(call)) {
    run(call);
  }
}

Work Group::dispatch_async(const Call& call) {
  return is_done_alone(call) ? Work() : start(call);
}

namespace {

/// A send only reads; Call has one output for every operation.
Buffer as_output(ConstBuffer buffer) {
  return {const_cast<void*>(buffer.data), buffer.numel, buffer.dtype};
}

}  // namespace

void Group::all_reduce(Buffer buffer, ReduceOp op, CallSite site) {
  dispatch({OpKind::kAllReduce, buffer, buffer, op, -1, site});
}

void Group::all_gather(ConstBuffer mine, Buffer all, CallSite site) {
  dispatch({OpKind::kAllGather, mine, all, ReduceOp::kSum, -1, site});
}

void Group::reduce_scatter(ConstBuffer all,
                           Buffer mine,
                           ReduceOp op,
                           CallSite site) {
  dispatch({OpKind::kReduceScatter, all, mine, op, -1, site});
}

void Group::broadcast(Buffer buffer, int root, CallSite site) {
  dispatch({OpKind::kBroadcast, buffer, buffer, ReduceOp::kSum, root, site});
}

void Group::all_to_all(ConstBuffer in, Buffer out, CallSite site) {
  dispatch({OpKind::kAllToAll, in, out, ReduceOp::kSum, -1, site});
}

void Group::barrier(CallSite site) {
  dispatch({OpKind::kBarrier, {}, {}, ReduceOp::kSum, -1, site});
}

void Group::send(ConstBuffer buffer, int peer, CallSite site) {
  dispatch(
      {OpKind::kSend, buffer, as_output(buffer), ReduceOp::kSum, peer, site});
}

void Group::recv(Buffer buffer, int peer, CallSite site) {
  dispatch({OpKind::kReceive, buffer, buffer, ReduceOp::kSum, peer, site});
}

Work Group::all_reduce_async(Buffer buffer, ReduceOp op, CallSite site) {
  return dispatch_async({OpKind::kAllReduce, buffer, buffer, op, -1, site});
}

Work Group::all_gather_async(ConstBuffer mine, Buffer all, CallSite site) {
  return dispatch_async(
      {OpKind::kAllGather, mine, all, ReduceOp::kSum, -1, site});
}

Work Group::reduce_scatter_async(ConstBuffer all,
                                 Buffer mine,
                                 ReduceOp op,
                                 CallSite site) {
  return dispatch_async({OpKind::kReduceScatter, all, mine, op, -1, site});
}

Work Group::broadcast_async(Buffer buffer, int root, CallSite site) {
  return dispatch_async(
      {OpKind::kBroadcast, buffer, buffer, ReduceOp::kSum, root, site});
}

Work Group::send_async(ConstBuffer buffer, int peer, CallSite site) {
  return dispatch_async(
      {OpKind::kSend, buffer, as_output(buffer), ReduceOp::kSum, peer, site});
}

Work Group::recv_async(Buffer buffer, int peer, CallSite site) {
  return dispatch_async(
      {OpKind::kReceive, buffer, buffer, ReduceOp::kSum, peer, site});
}

}  // namespace triax
