// SPDX-License-Identifier: Apache-2.0
// The part of Optimizer whose states lie on file.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/memory/tracker.h"
#include "triax/optim/optimizer.h"

namespace triax {
namespace {

Range whole(const std::vector<Range>& places) {
  if (places.empty()) {
    return {};
  }
  const int64_t start =
      places.front().start / kSpillAlignment * kSpillAlignment;
  const int64_t end = places.back().start + places.back().length;
  return {start, round_up(end - start, kSpillAlignment)};
}

}  // namespace

void Optimizer::make_on_file() {
  TRIAX_CHECK(offloaded_.places.size() == tensors_.size() &&
                  offloaded_.states.size() == state_names_.size(),
              offloaded_.places.size(),
              " places of ",
              tensors_.size(),
              " tensors");
  if (!has_masters_on_file()) {
    return;  // all is 0
  }
  WindowPass masters = {.elements = whole(offloaded_.places),
                        .reads = {},
                        .writes = {offloaded_.master}};
  if (offloaded_.parameter >= 0) {
    masters.reads = {offloaded_.parameter};
  }
  offloaded_.file->for_each_window(masters, [&](const ArrayWindow& window) {
    for_each_part(window, [&](size_t index, const Range& elements) {
      const Part part = part_of(window, index, elements);
      part.master.copy_(part.parameter);
    });
  });
}

void Optimizer::step_on_file(double lr, double gradient_scale) {
  const MemoryScope memory(MemoryCategory::kOptimizer);
  offloaded_.file->for_each_window(pass(), [&](const ArrayWindow& window) {
    std::vector<Batch> batches;
    for_each_part(window, [&](size_t index, const Range& elements) {
      add_to(batches, index, part_of(window, index, elements));
    });
    for (const Batch& batch : batches) {
      apply(batch, lr, gradient_scale);
    }
  });
}

WindowPass Optimizer::pass() const {
  WindowPass pass = {.elements = whole(offloaded_.places),
                     .reads = offloaded_.states,
                     .writes = offloaded_.states};
  if (has_masters_on_file()) {
    pass.reads.push_back(offloaded_.master);
    pass.writes.push_back(offloaded_.master);
  }
  if (offloaded_.parameter >= 0) {
    if (!has_masters_on_file()) {
      pass.reads.push_back(offloaded_.parameter);
    }
    pass.writes.push_back(offloaded_.parameter);
  }
  if (offloaded_.gradient >= 0) {
    pass.reads.push_back(offloaded_.gradient);
  }
  return pass;
}

void Optimizer::for_each_part(
    const ArrayWindow& window,
    const std::function<void(size_t index, const Range& elements)>& body) {
  const std::vector<Range>& places = offloaded_.places;
  const auto first = std::partition_point(
      places.begin(), places.end(), [&](const Range& place) {
        return place.start + place.length <= window.elements.start;
      });
  for (auto place = first; place != places.end(); ++place) {
    const Range mine = intersection(*place, window.elements);
    if (mine.length > 0) {
      body(static_cast<size_t>(place - places.begin()),
           {mine.start - place->start, mine.length});
    } else if (place->start >= window.elements.start + window.elements.length) {
      return;
    }
  }
}

Optimizer::Part Optimizer::part_of(const ArrayWindow& window,
                                   size_t index,
                                   const Range& elements) const {
  const OptimizedTensor& tensor = tensors_[index];
  const int64_t in_window =
      offloaded_.places[index].start + elements.start - window.elements.start;
  const auto on_file = [&](int array) {
    const at::Tensor& whole = window.arrays[array];
    return whole.defined() ? whole.narrow(0, in_window, elements.length)
                           : at::Tensor();
  };
  const auto in_memory = [&](const at::Tensor& whole) {
    return whole.detach().view({-1}).narrow(0, elements.start, elements.length);
  };
  Part part;
  part.parameter = offloaded_.parameter >= 0 ? on_file(offloaded_.parameter)
                                             : in_memory(tensor.parameter);
  part.master =
      has_masters_on_file() ? on_file(offloaded_.master) : part.parameter;
  part.gradient = offloaded_.gradient >= 0 ? on_file(offloaded_.gradient)
                                           : in_memory(tensor.gradient);
  for (const int state : offloaded_.states) {
    part.states.push_back(on_file(state));
  }
  return part;
}

void Optimizer::visit_states(
    bool is_written, const std::function<void(const OptimizerState&)>& visit) {
  const at::NoGradGuard no_grad;
  if (!is_offloaded()) {
    for (const OptimizerState& state : states()) {
      visit(state);
    }
    return;
  }
  WindowPass all = {.elements = whole(offloaded_.places),
                    .reads = offloaded_.states,
                    .writes = {}};
  if (has_masters_on_file()) {
    all.reads.push_back(offloaded_.master);
  }
  if (is_written) {
    all.writes = all.reads;
  }
  const MemoryScope memory(MemoryCategory::kOptimizer);
  offloaded_.file->for_each_window(all, [&](const ArrayWindow& window) {
    for_each_part(window, [&](size_t index, const Range& elements) {
      const Part part = part_of(window, index, elements);
      const auto visit_one = [&](const std::string& name,
                                 const at::Tensor& tensor) {
        visit({.name = name,
               .index = static_cast<int64_t>(index),
               .tensor = tensor,
               .start = elements.start});
      };
      if (has_masters_on_file()) {
        visit_one("master", part.master);
      }
      for (size_t i = 0; i < state_names_.size(); ++i) {
        visit_one(state_names_[i], part.states[i]);
      }
    });
  });
}

}  // namespace triax
