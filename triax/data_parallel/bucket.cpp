// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/bucket.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

/// Runs after autograd has added a parameter's gradient.
class AfterGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AfterGradient(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

 private:
  const std::function<void()> call_;
};

}  // namespace

std::vector<Bucket> make_buckets(const FlatBuffer& buffer,
                                 const BucketOptions& options) {
  std::vector<Bucket> buckets;
  const int64_t element_bytes =
      buffer.numel() == 0 ? 1 : buffer.nbytes() / buffer.numel();
  for (int i = 0; i < buffer.num_parameters(); ++i) {
    const Range range = buffer.range(i);
    const bool opens =
        buckets.empty() ||
        (buckets.back().range.length + range.length) * element_bytes >
            options.cap_bytes;
    if (opens) {
      buckets.push_back({{range.start, 0}, {}});
    }
    buckets.back().range.length += range.length;
    buckets.back().parameters.push_back(i);
  }
  return buckets;
}

BucketReducer::BucketReducer(FlatBuffer& buffer,
                             Group& dp,
                             const BucketOptions& options)
    : buffer_(buffer),
      dp_(dp),
      buckets_(make_buckets(buffer, options)),
      bucket_of_(buffer.num_parameters()),
      self_(std::make_shared<BucketReducer*>(this)) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (int parameter : buckets_[b].parameters) {
      bucket_of_[parameter] = static_cast<int>(b);
    }
  }
  for (int i = 0; i < buffer.num_parameters(); ++i) {
    auto hook = std::make_unique<AfterGradient>([self = self_, i] {
      if (*self != nullptr) {
        (*self)->on_gradient(i);
      }
    });
    torch::autograd::impl::set_post_acc_grad_hooks(buffer.parameter(i),
                                                   std::move(hook));
  }
}

BucketReducer::~BucketReducer() {
  *self_ = nullptr;
}

void BucketReducer::prepare() {
  TRIAX_CHECK(works_.empty(), "the last step was not finished");
  missing_.clear();
  for (const Bucket& bucket : buckets_) {
    missing_.push_back(static_cast<int>(bucket.parameters.size()));
  }
  arrived_.assign(buffer_.num_parameters(), false);
  next_bucket_ = 0;
  is_last_microbatch_ = true;
}

void BucketReducer::on_gradient(int parameter) {
  if (!is_last_microbatch_ || arrived_[parameter]) {
    return;
  }
  TRIAX_CHECK(buffer_.parameter(parameter).grad().data_ptr() ==
                  buffer_.gradient(parameter).data_ptr(),
              "a gradient left the flat buffer");
  arrived_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  start_ready();
}

void BucketReducer::start_ready() {
  // In order, so that every replica starts the same sequence.
  while (next_bucket_ < buckets_.size() && missing_[next_bucket_] == 0) {
    if (before_reduce) {
      before_reduce(static_cast<int>(next_bucket_));
    }
    works_.push_back(
        all_reduce_async(dp_, buffer_.slice(buckets_[next_bucket_].range)));
    ++next_bucket_;
  }
}

void BucketReducer::finish() {
  TRIAX_CHECK(is_last_microbatch_, "finish() without prepare()");
  missing_.assign(buckets_.size(), 0);
  start_ready();
  for (Work& work : works_) {
    work.wait();
  }
  works_.clear();
  is_last_microbatch_ = false;
}

}  // namespace triax
