// SPDX-License-Identifier: Apache-2.0
#include "triax/config/nearest.h"

#include <algorithm>
#include <cctype>

namespace triax {
namespace {

// No key is longer; a longer word is not a slip of one.
constexpr size_t kMaxWordBytes = 100;

}  // namespace

std::string plain_letters(std::string_view word) {
  std::string plain;
  for (const char letter : word) {
    if (letter != '_' && letter != '-') {
      plain +=
          static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return plain;
}

// Optimal string alignment: Levenshtein and swaps of neighbours.
int edit_distance(std::string_view first, std::string_view second) {
  const std::string a = plain_letters(first);
  const std::string b = plain_letters(second);
  std::vector<std::vector<int>> cost(a.size() + 1,
                                     std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1,
                             cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view word,
                    const std::vector<std::string_view>& words) {
  if (word.size() > kMaxWordBytes) {
    return "";
  }
  int least = std::clamp(static_cast<int>(word.size()) / 3, 1, 3) + 1;
  std::string found;
  for (const std::string_view candidate : words) {
    const int distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      found = candidate;
    }
  }
  return found;
}

bool is_sure_slip(std::string_view word,
                  std::string_view near,
                  const std::vector<std::string_view>& words) {
  const auto digits = [](std::string_view text) {
    std::string found;
    for (const char byte : text) {
      found += byte >= '0' && byte <= '9' ? std::string(1, byte) : "";
    }
    return found;
  };
  const int distance = edit_distance(word, near);
  return digits(word) == digits(near) &&
         std::none_of(words.begin(), words.end(), [&](std::string_view other) {
           return other != near && edit_distance(word, other) <= distance;
         });
}

}  // namespace triax
