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

}  // namespace triax
