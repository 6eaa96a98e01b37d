// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "triax/comm/group.h"
#include "triax/comm/local_group.h"
#include "triax/comm/local_op.h"

namespace triax {

/// A collective of the local transport.
///
/// Its tensor goes through the group's block in chunks. In phase k a rank puts
/// chunk k of its input into the block, reduces its share of chunk k - 1, and
/// takes the others' shares of chunk k - 2 out: one wait a phase, and chunks
/// that stay in cache. A small all_reduce takes one phase, in which every rank
/// reduces everything. The headers of the first phase are compared before any
/// data is used.
class LocalCollective : public LocalOp {
 public:
  LocalCollective(LocalGroupState& group,
                  const OpRecord& record,
                  ConstBuffer in,
                  Buffer out,
                  int64_t issued_ns);

  bool advance() override;
  std::vector<Awaited> awaited() const override;

 private:
  struct Span {
    int64_t start = 0;
    int64_t numel = 0;
  };

  void choose_chunks();
  Span chunk(int64_t index) const;
  /// Which elements of a chunk `rank` reduces.
  Span share(const Span& chunk, int rank) const;
  const std::byte* in_at(int64_t element) const;
  std::byte* out_at(int64_t element) const;

  bool have_all_reached(int64_t phase);
  void write_header();
  void read_headers();
  void publish();
  void work();
  void stage(const Span& chunk);
  void stage_parts(const Span& chunk);
  void reduce_chunk(const Span& chunk);
  void take_out(const Span& chunk);
  void copy(void* to, const void* from, int64_t numel) const;

  LocalGroupState& group_;
  const ConstBuffer in_;
  const Buffer out_;
  const int64_t issued_ns_;
  const int64_t element_bytes_;

  bool is_one_shot_ = false;
  int64_t part_numel_ = 0;  // what is cut into chunks
  int64_t chunk_numel_ = 0;
  int64_t num_chunks_ = 0;
  int64_t num_phases_ = 0;

  int64_t base_ = 0;   // the group's phase that it began with
  int64_t phase_ = 0;  // counted from there
  int64_t end_ns_ = 0;
  bool is_through_ = false;
  int first_late_ = 0;  // ranks before it have reached the phase
  std::atomic<int64_t> awaited_progress_{0};
};

}  // namespace triax
