// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tests/dataset/written_set.h"

namespace triax {

/// Ids of the corpus lie in [0, kTinyCorpusIds).
inline constexpr int64_t kTinyCorpusIds = 11;

/// Some 4,000 tokens in documents of 2 to 60: a Markov chain that mostly goes
/// on from t to 3 t + 1 (mod 11), the same at every call.
Documents tiny_documents();

/// The same tokens as text: letters from 'a' on, documents run together.
std::string tiny_text();

}  // namespace triax
