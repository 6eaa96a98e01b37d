// SPDX-License-Identifier: Apache-2.0
#include "triax/config/nearest.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace triax {
namespace {

// No key is longer; a longer word is not a slip of one.
constexpr size_t kMaxWordBytes = 100;

constexpr std::string_view kNegations[] = {"no", "non", "not", "disable", "un"};

bool is_hyphen(char letter) {
  return letter == '-' || letter == '_';
}

// What follows `prefix` and a hyphen; "un" stands without one. Empty: nothing.
std::string_view after_prefix(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix) || word.size() <= prefix.size()) {
    return "";
  }
  word.remove_prefix(prefix.size());
  if (!is_hyphen(word.front())) {
    return prefix == "un" ? word : "";
  }
  return word.substr(1);
}

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

bool negates(std::string_view word, std::string_view other) {
  const std::string_view enabled = after_prefix(other, "enable");
  for (const std::string_view negation : kNegations) {
    const std::string_view rest = after_prefix(word, negation);
    if (rest.empty() || !after_prefix(other, negation).empty()) {
      continue;
    }
    if (edit_distance(rest, other) < edit_distance(word, other) ||
        (!enabled.empty() &&
         edit_distance(rest, enabled) < edit_distance(word, other))) {
      return true;
    }
  }
  return false;
}

bool are_opposites(std::string_view a, std::string_view b) {
  return negates(a, b) || negates(b, a);
}

std::string opposite_of(std::string_view word,
                        const std::vector<std::string_view>& words) {
  const auto adds = [](std::string_view longer, std::string_view rest) {
    return std::any_of(std::begin(kNegations),
                       std::end(kNegations),
                       [&](std::string_view negation) {
                         const auto after = after_prefix(longer, negation);
                         return !after.empty() &&
                                plain_letters(after) == plain_letters(rest);
                       });
  };
  const auto found =
      std::find_if(words.begin(), words.end(), [&](std::string_view candidate) {
        return adds(candidate, word) || adds(word, candidate);
      });
  return found == words.end() ? "" : std::string(*found);
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
    if (distance < least && !are_opposites(word, candidate)) {
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
