// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "triax/base/dtype.h"
#include "triax/comm/emulation.h"
#include "triax/comm/operation.h"

namespace triax {

/// `numel` contiguous elements that an operation only reads.
struct ConstBuffer {
  const void* data = nullptr;
  int64_t numel = 0;
  DType dtype = DType::kFloat32;

  int64_t nbytes() const { return numel * dtype_bytes(dtype); }
};

/// `numel` contiguous elements that an operation writes.
struct Buffer {
  void* data = nullptr;
  int64_t numel = 0;
  DType dtype = DType::kFloat32;

  int64_t nbytes() const { return numel * dtype_bytes(dtype); }
  operator ConstBuffer() const { return {data, numel, dtype}; }
};

/// An operation under way. Its buffers must live until it is done. Ends by
/// scope: the destructor waits, and drops the error (wait() throws it).
class Work {
 public:
  struct State;

  Work();
  explicit Work(std::shared_ptr<State> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Returns when the buffers may be used; throws the operation's Error. The
  /// time spent here is recorded as exposed communication. Idempotent.
  void wait();
  bool is_done() const;

 private:
  std::shared_ptr<State> state_;
};

/// Ranks that communicate. A collective must be called by every rank of the
/// group, in the same order, with equal count, dtype, reduce-op and root: a
/// difference is an Error on every rank, within a second, that names both
/// ranks and both call sites. An element is summed in rank order whatever the
/// operation, size or chunk; 16-bit types are summed in fp32 and rounded once.
/// One rank's Group is used by one thread at a time. A group of one rank does
/// nothing, at no cost. Throws Error at the deadline, naming who is missing.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "world", "dp", "tp", "pp" or what split() was told.
  virtual const std::string& name() const = 0;
  /// The number in the world of this group's rank `rank`.
  virtual int world_rank(int rank) const = 0;

  /// In place, on every rank.
  void all_reduce(Buffer buffer,
                  ReduceOp op = ReduceOp::kSum,
                  CallSite site = CallSite::current());
  /// `all` holds size() parts of mine.numel elements, in rank order. `mine`
  /// may be this rank's part of `all`.
  void all_gather(ConstBuffer mine,
                  Buffer all,
                  CallSite site = CallSite::current());
  /// `mine` gets this rank's part of the sum of every rank's `all`. `mine`
  /// may be this rank's part of `all`.
  void reduce_scatter(ConstBuffer all,
                      Buffer mine,
                      ReduceOp op = ReduceOp::kSum,
                      CallSite site = CallSite::current());
  void broadcast(Buffer buffer, int root, CallSite site = CallSite::current());
  /// Part r of `in` goes to rank r; part r of `out` comes from rank r.
  void all_to_all(ConstBuffer in,
                  Buffer out,
                  CallSite site = CallSite::current());
  void barrier(CallSite site = CallSite::current());
  /// Messages between two ranks arrive in the order they were sent. send()
  /// returns when the buffer may be used again.
  void send(ConstBuffer buffer, int peer, CallSite site = CallSite::current());
  void recv(Buffer buffer, int peer, CallSite site = CallSite::current());

  // The same, started: progress is made while the rank computes. Operations of
  // one group are carried out in the order they were started, except that
  // sends and receives to different peers, and the two directions between two
  // ranks, do not wait for each other nor for collectives.
  Work all_reduce_async(Buffer buffer,
                        ReduceOp op = ReduceOp::kSum,
                        CallSite site = CallSite::current());
  Work all_gather_async(ConstBuffer mine,
                        Buffer all,
                        CallSite site = CallSite::current());
  Work reduce_scatter_async(ConstBuffer all,
                            Buffer mine,
                            ReduceOp op = ReduceOp::kSum,
                            CallSite site = CallSite::current());
  Work broadcast_async(Buffer buffer,
                       int root,
                       CallSite site = CallSite::current());
  Work send_async(ConstBuffer buffer,
                  int peer,
                  CallSite site = CallSite::current());
  Work recv_async(Buffer buffer, int peer, CallSite site = CallSite::current());

  /// Every rank of this group must call. Ranks with equal colour form a new
  /// group, ordered by (key, rank). A negative colour gives nullptr.
  virtual std::unique_ptr<Group> split(int color,
                                       int key,
                                       const std::string& name,
                                       CallSite site = CallSite::current()) = 0;

  /// From now on this group's operations end no earlier than on such a link.
  /// Every rank of the group must set the same, with no operation under way.
  virtual void emulate(const LinkEmulation& link) = 0;

 protected:
  struct Call {
    OpKind op;
    ConstBuffer in;
    Buffer out;
    ReduceOp reduce_op = ReduceOp::kSum;
    int peer = -1;  // root of a broadcast, or the other rank of a message
    CallSite site;
  };
  /// Only called with two ranks or more and buffers that fit each other.
  virtual void run(const Call& call) = 0;
  virtual Work start(const Call& call) = 0;

 private:
  void dispatch(const Call& call);
  Work dispatch_async(const Call& call);
  bool is_done_alone(const Call& call) const;
  [[noreturn]] void refuse(const Call& call, const std::string& rule) const;
  void check(const Call& call) const;
};

}  // namespace triax
