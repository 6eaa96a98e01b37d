// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/unit_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

bool contains(std::span<const int> list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// FNV-1a over the numbers.
int64_t hash_of(const std::vector<int>& numbers) {
  uint64_t hash = 14695981039346656037ULL;
  for (const int number : numbers) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 1099511628211ULL;
  }
  return static_cast<int64_t>(hash);
}

}  // namespace

void UnitOrder::begin_pass(int kind) {
  kind_ = kind;
  seen_.clear();
  next_ = 0;
  is_as_learnt_ = !learnt_[kind].empty();
}

void UnitOrder::note_use(int unit) {
  if (!seen_.empty() && seen_.back() == unit) {
    return;
  }
  seen_.push_back(unit);
  if (is_as_learnt_) {
    const std::vector<int>& learnt = learnt_[kind_];
    is_as_learnt_ = next_ < learnt.size() && learnt[next_] == unit;
    ++next_;
  }
}

std::vector<int> UnitOrder::upcoming(std::span<const int> units,
                                     int ahead) const {
  std::vector<int> next;
  if (!is_as_learnt_) {
    return next;
  }
  const std::vector<int>& learnt = learnt_.at(kind_);
  for (size_t i = next_; i < learnt.size(); ++i) {
    if (static_cast<int>(next.size()) == ahead) {
      break;
    }
    if (!contains(units, learnt[i]) && !contains(next, learnt[i])) {
      next.push_back(learnt[i]);
    }
  }
  return next;
}

void UnitOrder::end_pass(Group& shards,
                         const std::function<std::string(int)>& name_of) {
  is_as_learnt_ = false;
  compare(shards, name_of);
  learnt_[kind_] = std::exchange(seen_, {});
}

void UnitOrder::compare(Group& shards,
                        const std::function<std::string(int)>& name_of) const {
  const auto num_ranks = static_cast<size_t>(shards.size());
  const auto gather = [&](std::vector<int64_t> mine) {
    std::vector<int64_t> all(mine.size() * num_ranks);
    shards.all_gather(
        {mine.data(), static_cast<int64_t>(mine.size()), DType::kInt64},
        {all.data(), static_cast<int64_t>(all.size()), DType::kInt64});
    return all;
  };
  const std::vector<int64_t> all =
      gather({hash_of(seen_), static_cast<int64_t>(seen_.size())});
  size_t longest = 0;
  bool is_equal = true;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    is_equal =
        is_equal && all[2 * rank] == all[0] && all[2 * rank + 1] == all[1];
    longest = std::max(longest, static_cast<size_t>(all[2 * rank + 1]));
  }
  if (is_equal) {
    return;
  }
  constexpr int64_t kNone = -1;
  std::vector<int64_t> mine(seen_.begin(), seen_.end());
  mine.resize(longest, kNone);
  const std::vector<int64_t> orders = gather(std::move(mine));
  const auto name = [&](int64_t unit) {
    return unit == kNone ? "none" : name_of(static_cast<int>(unit));
  };
  for (size_t use = 0; use < longest; ++use) {
    for (size_t rank = 1; rank < num_ranks; ++rank) {
      const int64_t first = orders[use];
      const int64_t other = orders[rank * longest + use];
      if (first != other) {
        throw Error("zero 3: rank ",
                    shards.world_rank(0),
                    " used ",
                    name(first),
                    " where rank ",
                    shards.world_rank(static_cast<int>(rank)),
                    " used ",
                    name(other),
                    " (use ",
                    use + 1,
                    " of this pass), so that each got what the other asked "
                    "for; replicas must use the same units in the same order");
      }
    }
  }
}

}  // namespace triax
