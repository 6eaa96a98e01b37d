// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace triax {

/// A word as keys are compared: without underscores and hyphens, in lower case.
std::string plain_letters(std::string_view word);

/// Insertions, deletions, replacements and swaps of neighbours that make `b`
/// of `a`; underscores and case do not count.
int edit_distance(std::string_view a, std::string_view b);

/// Whether one name says the contrary of the other: "no_overlap_comm" of
/// "overlap_comm", "untie-embeddings" of "tie-embedings" (a slip in the rest
/// does not count), "disable_x" of "x" and of "enable_x".
bool are_opposites(std::string_view a, std::string_view b);

/// The one among `words` that is `word` with or without a negation before it;
/// else empty.
std::string opposite_of(std::string_view word,
                        const std::vector<std::string_view>& words);

/// Whether the name begins with a negation: "no-", "non-", "disable-", or
/// "un" where `other` goes on without it.
bool negates(std::string_view word, std::string_view other);

/// The word closest to `word`, if it is close enough to be a slip (a third of
/// its letters, at least one, at most three) and no opposite; else empty.
std::string nearest(std::string_view word,
                    const std::vector<std::string_view>& words);

/// Whether `near` is surely what the slip `word` means: digits, which nobody
/// mistakes for letters, are the same, and no other word is as close.
bool is_sure_slip(std::string_view word,
                  std::string_view near,
                  const std::vector<std::string_view>& words);

}  // namespace triax
