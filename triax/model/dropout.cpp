// SPDX-License-Identifier: Apache-2.0
#include "triax/model/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "triax/base/error.h"
#include "triax/model/parallel_rows.h"
#include "triax/model/philox.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrainElements = 32768;

uint32_t drop_threshold(double probability) {
  TRIAX_CHECK(probability >= 0.0 && probability < 1.0, probability);
  return static_cast<uint32_t>(std::llround(probability * 4294967296.0));
}

PhiloxKey site_key(const DropoutOptions& options,
                   const Place& place,
                   int64_t head) {
  return make_philox_key({place.seed,
                          static_cast<uint64_t>(place.step),
                          static_cast<uint64_t>(options.layer),
                          static_cast<uint64_t>(options.site),
                          static_cast<uint64_t>(head)});
}

std::array<uint32_t, 3> row_words(const Place& place,
                                  int64_t sample,
                                  int64_t position) {
  const uint64_t id = static_cast<uint64_t>(place.sample_ids[sample]);
  return {static_cast<uint32_t>(id),
          static_cast<uint32_t>(id >> 32),
          static_cast<uint32_t>(position)};
}

void check_samples(const Place& place, int64_t batch) {
  TRIAX_CHECK(static_cast<int64_t>(place.sample_ids.size()) == batch,
              place.sample_ids.size(),
              " sample ids for a batch of ",
              batch);
}

int64_t grain_rows(int64_t columns) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, columns));
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& keep,
                            double scale) {
    context->save_for_backward({keep});
    context->saved_data["scale"] = scale;
    return at::mul(x, keep).mul_(scale);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor keep = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    return {at::mul(grads[0], keep).mul_(scale), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor hidden_keep_mask(const DropoutOptions& options,
                            const Place& place,
                            int64_t first_position,
                            at::IntArrayRef shape) {
  check_samples(place, shape[0]);
  at::Tensor keep = at::empty(shape, at::kBool);
  bool* const out = keep.data_ptr<bool>();
  const int64_t length = shape[1];
  const int64_t columns = shape[2];
  const PhiloxKey key = site_key(options, place, 0);
  const uint32_t threshold = drop_threshold(options.probability);
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto words =
          row_words(place, row / length, first_position + row % length);
      philox_keep(key, words, threshold, out + row * columns, columns);
    }
  };
  parallel_rows(shape[0] * length, grain_rows(columns), work);
  return keep;
}

at::Tensor attention_keep_mask(const DropoutOptions& options,
                               const Place& place,
                               int64_t first_head,
                               at::IntArrayRef shape) {
  check_samples(place, shape[0]);
  at::Tensor keep = at::zeros(shape, at::kBool);
  bool* const out = keep.data_ptr<bool>();
  const int64_t heads = shape[1];
  const int64_t length = shape[2];
  const uint32_t threshold = drop_threshold(options.probability);
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t query = row % length;
      const int64_t head = first_head + row / length % heads;
      const auto words = row_words(
          place, row / (length * heads), place.first_position + query);
      philox_keep(site_key(options, place, head),
                  words,
                  threshold,
                  out + row * length,
                  query + 1);
    }
  };
  parallel_rows(shape[0] * heads * length, grain_rows(length), work);
  return keep;
}

at::Tensor Dropout::forward(const at::Tensor& x, const Place& place) {
  if (options_.probability == 0.0 || !place.is_training) {
    return x;
  }
  const at::Tensor keep =
      hidden_keep_mask(options_,
                       place,
                       place.first_position + sequence_part * x.size(1),
                       x.sizes());
  return DropoutFunction::apply(x, keep, 1.0 / (1.0 - options_.probability));
}

}  // namespace triax
