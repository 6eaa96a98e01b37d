// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/category.h"

#include <numeric>

#include "triax/base/units.h"

namespace triax {

int64_t MemoryBytes::total() const {
  return std::accumulate(by_category.begin(), by_category.end(), int64_t{0});
}

std::string to_text(const MemoryBytes& bytes) {
  std::string text;
  for (size_t i = 0; i < kNumMemoryCategories; ++i) {
    if (bytes.by_category[i] != 0) {
      text += text.empty() ? "" : ", ";
      text += kMemoryCategoryNames[i];
      text += " " + format_bytes(bytes.by_category[i]);
    }
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace triax
