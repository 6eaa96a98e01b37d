// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "triax/train/gather.h"

namespace triax {

// How far quantities of two runs lie apart, in fp64 whatever their type.

double norm_of(const at::Tensor& tensor);
double distance_between(const at::Tensor& a, const at::Tensor& b);
double root_numel(const at::Tensor& tensor);

/// Infinity where the difference is not finite, 0 where it is 0.
double divide(double difference, double scale);
/// |a - b| / |b|.
double relative(double a, double b);

/// The root mean square of all elements of all gradients.
double rms_of(const TensorMap& gradients);
/// What a gradient is measured against: max(|b|, 1e-3 rms sqrt(numel)).
double gradient_scale(const at::Tensor& b, double rms);
/// |a - b| / gradient_scale(b).
double gradient_distance(const at::Tensor& a, const at::Tensor& b, double rms);

}  // namespace triax
