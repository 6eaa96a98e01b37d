// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "triax/comm/group.h"

namespace triax {

// The two boundaries of tensor parallelism, f and g of Shoeybi et al. 2019
// (Megatron-LM, section 3). The group must outlive every graph made with
// them; every rank of it must run the same forward and backward.

/// Forward identity; backward sums the gradient over the group. In front of a
/// product split by outputs: each rank sees only its outputs' gradient.
std::function<at::Tensor(const at::Tensor&)> copy_to(Group& group);

/// Forward sums over the group; backward identity. Behind a product split by
/// inputs: each rank has only a partial sum.
std::function<at::Tensor(const at::Tensor&)> reduce_from(Group& group);

// The two of sequence parallelism, g and its conjugate of Korthikanti et al.
// 2022 (section 4.2.2): between the regions of tensor parallelism each rank
// holds one of equal parts of the sequence, dim 1 of [B, S, H]. A sum of the
// ranks is rounded as reduce_from rounds it: in rank order.

/// Forward [B, S / n, H] → [B, S, H], from all ranks; backward sums the
/// gradient and keeps this rank's part.
std::function<at::Tensor(const at::Tensor&)> gather_sequence(Group& group);

/// Forward sums [B, S, H] over the group and keeps this rank's part; backward
/// gathers the gradient. n must divide S (checked).
std::function<at::Tensor(const at::Tensor&)> scatter_sequence(Group& group);

}  // namespace triax
