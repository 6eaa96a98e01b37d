// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tiny_corpus.h"

#include <random>

namespace triax {

Documents tiny_documents() {
  constexpr int kNumDocuments = 130;
  std::mt19937_64 random(2024);
  Documents documents;
  int64_t token = 0;
  for (int i = 0; i < kNumDocuments; ++i) {
    std::vector<int64_t> tokens(2 + random() % 59);
    for (int64_t& value : tokens) {
      token = random() % 4 == 0 ? static_cast<int64_t>(random() % 11)
                                : (3 * token + 1) % kTinyCorpusIds;
      value = token;
    }
    documents.push_back({tokens});
  }
  return documents;
}

std::string tiny_text() {
  std::string text;
  for (const auto& document : tiny_documents()) {
    for (const int64_t token : document[0]) {
      text += static_cast<char>('a' + token);
    }
  }
  return text;
}

}  // namespace triax
