// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triax/check/foreign_rules.h"

namespace triax {

// What the files of the rules over bytes share.

/// What could not be judged, in one clause for each thing that lacks.
class OpenQuestions {
 public:
  /// "whether zero 1 would fit", "--world".
  void ask(const std::string& question, const std::string& missing);
  void say(ForeignFindings& findings) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> by_missing_;
};

std::string bytes_text(double bytes);
std::string count_text(double count);

/// Tokens of one microbatch that a rank of cp holds; nullopt where not known.
std::optional<double> microbatch_tokens(const RunFacts& facts,
                                        const Layout& layout);

/// Bytes that one layer keeps for backward without recompute, for `tokens` of
/// one microbatch: s b [8 h + ((4 + 4 k/a) h + 6 f) / tp], and s b h (10 + 24 /
/// tp) of a layer with GELU and dropout (Korthikanti et al. 2022, without the
/// attention matrix).
double layer_bytes(const ModelSizes& model, double tokens, double tp);

/// States and activations that cannot be less, against a device's memory.
void check_fit(ForeignFindings& findings,
               const Layout& layout,
               OpenQuestions& questions);

}  // namespace triax
