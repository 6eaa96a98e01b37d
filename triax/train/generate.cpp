// SPDX-License-Identifier: Apache-2.0
#include "triax/train/generate.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/mesh/tensor_group.h"
#include "triax/model/philox.h"
#include "triax/pipeline_parallel/executor.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

/// The logits of one position over the whole vocabulary, fp64, on every rank.
at::Tensor whole_logits(const at::Tensor& mine,
                        const LossOptions& loss,
                        Group& tp) {
  const at::Tensor padded = mine.to(at::kDouble).contiguous();
  const at::Tensor all = at::empty({tp.size() * loss.num_columns}, at::kDouble);
  tp.all_gather(as_buffer(padded), as_buffer(all));
  return all.narrow(0, 0, loss.vocab_size);
}

/// In [0, 1), by seed and position alone.
double uniform_at(uint64_t seed, uint64_t position) {
  const PhiloxCounter bits = philox({static_cast<uint32_t>(position),
                                     static_cast<uint32_t>(position >> 32),
                                     0,
                                     0},
                                    make_philox_key(seed, "generate"));
  return bits[0] * 0x1p-32;
}

int64_t pick_token(const at::Tensor& logits,
                   const GenerateOptions& options,
                   size_t position) {
  if (options.temperature <= 0) {
    return logits.argmax().item<int64_t>();
  }
  const at::Tensor sums =
      at::softmax(logits / options.temperature, 0).cumsum(0).contiguous();
  const auto* begin = sums.const_data_ptr<double>();
  const auto* end = begin + sums.numel();
  const double drawn = uniform_at(options.seed, position) * *(end - 1);
  return std::min<int64_t>(std::upper_bound(begin, end, drawn) - begin,
                           sums.numel() - 1);
}

/// Runs one window of tokens through the stages.
class NextToken {
 public:
  NextToken(const RunConfig& config,
            DeviceMesh& mesh,
            Recorder& recorder,
            const RankModel& rank_model)
      : config_(config),
        mesh_(mesh),
        rank_model_(rank_model),
        executor_(
            for_all_ranks(forward_only, mesh.dims().pp, 1)[mesh.coord().pp],
            mesh.group(Axis::kPp),
            calls(),
            recorder) {}

  /// The token after `tokens`, the same on every rank.
  int64_t after(const std::vector<int64_t>& tokens,
                const GenerateOptions& options) {
    // Ranks that split the sequence need a multiple of their number. What is
    // put behind the tokens is not seen by them.
    const int64_t shares = config_.sequence_shares();
    const int64_t longest =
        config_.model.max_position_embeddings / shares * shares;
    const auto length = static_cast<int64_t>(tokens.size());
    const int64_t seen = std::min(length, longest);
    length_ = round_up(seen, shares);
    window_ = at::zeros({1, length_}, at::kLong);
    std::copy(tokens.end() - seen, tokens.end(), window_.data_ptr<int64_t>());
    const auto run = [this] { executor_.run(); };
    options.run_pass ? options.run_pass(run) : run();
    int64_t token = 0;
    if (mesh_.is_last_stage()) {
      const at::Tensor logits = whole_logits(
          output_[0][seen - 1], rank_model_.loss, mesh_.group(Axis::kTp));
      const int64_t num_ids =
          options.num_ids == 0 ? logits.size(0) : options.num_ids;
      token = pick_token(logits.narrow(0, 0, num_ids), options, tokens.size());
    }
    mesh_.group(Axis::kPp).broadcast({&token, 1, DType::kInt64},
                                     mesh_.dims().pp - 1);
    return token;
  }

 private:
  StageCalls calls() {
    StageCalls calls;
    calls.forward = [this](int, const at::Tensor& input) {
      Place place;
      place.sample_ids = {0};
      output_ =
          rank_model_.model->forward(input.defined() ? input : window_, place);
      return output_;
    };
    calls.make_activation = [this](int) {
      const DType dtype = parameter_dtype(config_.training.precision);
      return at::empty(
          {1, length_ / config_.sequence_shares(), config_.model.hidden_size},
          to_scalar_type(dtype));
    };
    return calls;
  }

  const RunConfig& config_;
  DeviceMesh& mesh_;
  const RankModel& rank_model_;
  at::Tensor window_;
  at::Tensor output_;
  int64_t length_ = 0;
  Executor executor_;
};

}  // namespace

std::vector<int64_t> generate(const RunConfig& config,
                              DeviceMesh& mesh,
                              Recorder& recorder,
                              const RankModel& rank_model,
                              const GenerateOptions& options) {
  if (options.prompt.empty()) {
    throw Error("a prompt needs at least one token");
  }
  std::vector<int64_t> tokens = options.prompt;
  NextToken next(config, mesh, recorder, rank_model);
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    tokens.push_back(next.after(tokens, options));
  }
  return tokens;
}

}  // namespace triax
