// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/comm/group.h"
#include "triax/comm/local_group.h"
#include "triax/comm/local_op.h"

namespace triax {

/// Writes a message into the channel to its peer, as room comes free.
class LocalSend : public LocalOp {
 public:
  /// `end_ns`: when an emulated link has carried it, else 0.
  LocalSend(LocalGroupState& group,
            const OpRecord& record,
            ConstBuffer in,
            int64_t end_ns);

  bool advance() override;
  std::vector<Awaited> awaited() const override;

 private:
  int64_t room() const;
  void publish(int64_t nbytes);

  LocalGroupState& group_;
  Channel& channel_;
  const ConstBuffer in_;
  const int64_t end_ns_;
  bool has_header_ = false;
  int64_t num_sent_ = 0;  // bytes
};

/// Takes a message out of the channel from its peer, as it comes in.
class LocalReceive : public LocalOp {
 public:
  LocalReceive(LocalGroupState& group, const OpRecord& record, Buffer out);

  bool advance() override;
  std::vector<Awaited> awaited() const override;

 private:
  void read_header();
  void publish(int64_t nbytes);

  LocalGroupState& group_;
  Channel& channel_;
  const Buffer out_;
  int64_t end_ns_ = 0;
  bool has_header_ = false;
  int64_t num_received_ = 0;  // bytes
};

}  // namespace triax
