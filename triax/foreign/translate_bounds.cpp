// SPDX-License-Identifier: Apache-2.0
// What a target's own table says of the numbers that it takes.
#include <algorithm>

#include "triax/config/fields.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

bool is_in(const Bounds& bounds, double number) {
  const bool is_low =
      bounds.is_min_excluded ? number <= bounds.min : number < bounds.min;
  const bool is_high =
      bounds.is_max_excluded ? number >= bounds.max : number > bounds.max;
  return !is_low && !is_high;
}

Bounds bounds_of(System to, const std::string& key) {
  if (to == System::kTriax) {
    // finish_triax() makes one list of the two.
    const bool is_beta = key.starts_with("optimizer.beta");
    const Field* field = find_field(is_beta ? "optimizer.betas" : key);
    return field == nullptr ? Bounds{} : field->bounds;
  }
  const KeyRow* row = find_system(to)->keys().find(key);
  return row == nullptr ? Bounds{} : Bounds{.min = row->min, .max = row->max};
}

}  // namespace

void TargetWriter::drop_misfits() {
  for (const WrittenKey& key : keys_) {
    if (key.value.is_number() && !key.fact.empty() &&
        !is_in(bounds_of(to_, key.key), key.value.get<double>())) {
      losses_[key.fact] = "it is outside the bounds of " + key.key;
    }
  }
  std::erase_if(keys_, [this](const WrittenKey& key) {
    return key.value.is_number() && !key.fact.empty() &&
           !is_in(bounds_of(to_, key.key), key.value.get<double>());
  });
}

}  // namespace triax
