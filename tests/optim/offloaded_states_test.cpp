// SPDX-License-Identifier: Apache-2.0
// States on file against states in memory: the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/scratch_folder.h"
#include "tests/support/tensors.h"
#include "triax/memory/io_buffer.h"
#include "triax/memory/tracker.h"
#include "triax/optim/optimizer.h"

namespace triax {
namespace {

struct OnFile {
  std::string name;
  std::string optimizer = "adamw";
  double momentum = 0.0;
  at::ScalarType parameter = at::kFloat;
  at::ScalarType master = at::kFloat;
  bool has_gradients = false;
  bool has_parameters = false;
};

void PrintTo(const OnFile& on_file, std::ostream* out) {
  *out << on_file.name;
}

/// Sizes below, at and above a window, none a multiple of anything.
const std::vector<int64_t> kNumels = {5, 9001, 64, 1, 4096, 3000, 257};
constexpr int64_t kGap = 192;  // between the places of two tensors

class OffloadedStates : public testing::TestWithParam<OnFile> {
 protected:
  OffloadedStates() {
    int64_t end = 0;
    for (size_t i = 0; i < kNumels.size(); ++i) {
      offloaded_.places.push_back({end, kNumels[i]});
      end += (kNumels[i] + 63) / 64 * 64 + kGap;
      const bool is_decayed = i % 3 != 0;
      memory_.push_back(
          {.parameter =
               random_tensor({kNumels[i]}, i + 1).to(GetParam().parameter),
           .gradient =
               random_tensor({kNumels[i]}, i + 50).to(GetParam().master),
           .lr_scale = i == 4 ? 0.3 : 1.0,
           .weight_decay = is_decayed ? 0.1 : 0.0});
      file_.push_back(memory_.back());
      file_.back().parameter = file_.back().parameter.clone();
      file_.back().gradient = file_.back().gradient.clone();
    }
    config_.name = GetParam().optimizer;
    config_.momentum = GetParam().momentum;
    make_arrays(end);
  }

  void make_arrays(int64_t end) {
    std::vector<SpilledArray> arrays;
    const auto add = [&](const std::string& name, at::ScalarType dtype) {
      arrays.push_back({name, dtype});
      return static_cast<int>(arrays.size()) - 1;
    };
    if (GetParam().parameter != GetParam().master) {
      offloaded_.master = add("master", GetParam().master);
    }
    for (const std::string& name : optimizer_state_names(config_)) {
      offloaded_.states.push_back(add(name, GetParam().master));
    }
    if (GetParam().has_gradients) {
      offloaded_.gradient = add("gradient", GetParam().master);
    }
    if (GetParam().has_parameters) {
      offloaded_.parameter = add("parameter", GetParam().parameter);
    }
    const int64_t numel =
        (end + kSpillAlignment - 1) / kSpillAlignment * kSpillAlignment;
    arrays_ = std::make_unique<SpilledArrays>(
        folder_.path().string(),
        numel,
        arrays,
        SpilledArraysOptions{.window_numel = kSpillAlignment});
    offloaded_.file = arrays_.get();
  }

  /// Tensors to or from an array.
  void move(int array, bool is_written, at::Tensor OptimizedTensor::*member) {
    WindowPass pass = {.elements = {0,
                                    arrays_->nbytes(array) /
                                        static_cast<int64_t>(c10::elementSize(
                                            arrays_->dtype(array)))},
                       .reads = {array},
                       .writes = {}};
    if (is_written) {
      pass.writes = {array};
    }
    arrays_->for_each_window(pass, [&](const ArrayWindow& window) {
      for (size_t i = 0; i < file_.size(); ++i) {
        const Range& place = offloaded_.places[i];
        const int64_t start = std::max(place.start, window.elements.start);
        const int64_t end =
            std::min(place.start + place.length,
                     window.elements.start + window.elements.length);
        if (start < end) {
          const at::Tensor there = window.arrays[array].narrow(
              0, start - window.elements.start, end - start);
          const at::Tensor here =
              (file_[i].*member).narrow(0, start - place.start, end - start);
          is_written ? there.copy_(here) : here.copy_(there);
        }
      }
    });
  }

  /// What the optimizer gets: what lies on file is undefined.
  std::vector<OptimizedTensor> given() {
    std::vector<OptimizedTensor> tensors = file_;
    for (OptimizedTensor& tensor : tensors) {
      if (GetParam().has_gradients) {
        tensor.gradient = at::Tensor();
      }
      if (GetParam().has_parameters) {
        tensor.parameter = at::Tensor();
      }
    }
    return tensors;
  }

  OptimizerConfig config_;
  std::vector<OptimizedTensor> memory_;
  std::vector<OptimizedTensor> file_;
  OffloadedOptimizer offloaded_;
  ScratchFolder folder_;
  std::unique_ptr<SpilledArrays> arrays_;
};

TEST_P(OffloadedStates, GiveTheBitsOfStatesInMemory) {
  if (GetParam().has_parameters) {
    move(offloaded_.parameter, true, &OptimizedTensor::parameter);
  }
  const auto in_memory = make_optimizer(config_, memory_);
  const auto on_file = make_optimizer(config_, given(), &offloaded_);
  EXPECT_FALSE(in_memory->is_offloaded());
  EXPECT_TRUE(on_file->is_offloaded());
  EXPECT_EQ(on_file->state_bytes(), in_memory->state_bytes());
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_[i].gradient.copy_(
          random_tensor({kNumels[i]}, 100 * step + i).to(GetParam().master));
      file_[i].gradient.copy_(memory_[i].gradient);
    }
    if (GetParam().has_gradients) {
      move(offloaded_.gradient, true, &OptimizedTensor::gradient);
    }
    const double scale = step == 2 ? 0.37 : 1.0;
    in_memory->step(0.01, scale);
    on_file->step(0.01, scale);
  }
  if (GetParam().has_parameters) {
    move(offloaded_.parameter, false, &OptimizedTensor::parameter);
  }
  for (size_t i = 0; i < memory_.size(); ++i) {
    EXPECT_TRUE(bits_equal(file_[i].parameter, memory_[i].parameter)) << i;
  }
}

TEST_P(OffloadedStates, AreVisitedInParts) {
  if (GetParam().has_parameters || GetParam().has_gradients) {
    GTEST_SKIP() << "the states are the same";
  }
  const auto in_memory = make_optimizer(config_, memory_);
  const auto on_file = make_optimizer(config_, given(), &offloaded_);
  in_memory->step(0.01);
  on_file->step(0.01);
  for (const double factor : {1.0, 2.0}) {
    std::map<std::pair<std::string, int64_t>, int64_t> seen;
    std::map<std::pair<std::string, int64_t>, at::Tensor> expected;
    for (const OptimizerState& state : in_memory->states()) {
      expected[{state.name, state.index}] = state.tensor;
    }
    on_file->visit_states(
        /*is_written=*/factor == 1.0, [&](const OptimizerState& part) {
          const auto key = std::make_pair(part.name, part.index);
          EXPECT_EQ(part.start, seen[key]) << part.name;
          seen[key] += part.tensor.numel();
          EXPECT_TRUE(
              bits_equal(part.tensor,
                         (expected.at(key) * factor)
                             .narrow(0, part.start, part.tensor.numel())))
              << part.name << " of " << part.index;
          part.tensor.mul_(2.0);  // kept the first time alone
        });
    EXPECT_EQ(seen.size(), expected.size());
    for (const auto& [key, numel] : seen) {
      EXPECT_EQ(numel, expected.at(key).numel());
    }
  }
}

TEST_P(OffloadedStates, TakeNoMemoryBetweenSteps) {
  const RankMemoryScope rank(make_memory_tracker());
  const auto on_file = make_optimizer(config_, given(), &offloaded_);
  EXPECT_EQ(this_rank_memory().use().current[MemoryCategory::kOptimizer], 0);
  on_file->step(0.01);
  EXPECT_EQ(this_rank_memory().use().current[MemoryCategory::kOptimizer], 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    OffloadedStates,
    testing::Values(
        OnFile{"adamw_fp32"},
        OnFile{"adamw_fp64", "adamw", 0.0, at::kDouble, at::kDouble},
        OnFile{"adamw_bf16", "adamw", 0.0, at::kBFloat16},
        OnFile{"momentum_fp16", "sgd", 0.9, at::kHalf},
        OnFile{"sgd_bf16", "sgd", 0.0, at::kBFloat16},
        OnFile{.name = "gradients", .has_gradients = true},
        OnFile{
            .name = "all_fp32", .has_gradients = true, .has_parameters = true},
        OnFile{.name = "all_bf16",
               .parameter = at::kBFloat16,
               .has_gradients = true,
               .has_parameters = true},
        OnFile{.name = "sgd_all_fp64",
               .optimizer = "sgd",
               .parameter = at::kDouble,
               .master = at::kDouble,
               .has_gradients = true,
               .has_parameters = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace triax
