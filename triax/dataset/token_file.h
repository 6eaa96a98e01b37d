// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "triax/dataset/megatron_index.h"
#include "triax/dataset/readable_file.h"

namespace triax {

/// A file of tokens, numbered from 0, that knows where its documents begin.
/// Immutable and safe to read from several threads.
///
///     const auto file = open_token_file("kjv.txt");
///     std::vector<int64_t> tokens(129);
///     file->read(/*first=*/0, tokens);
class TokenFile {
 public:
  /// Raw text: every byte is a token, and all of it one document.
  explicit TokenFile(ReadableFile text);
  /// A Megatron-LM pair, its .bin and what its .idx says.
  TokenFile(ReadableFile bin, MegatronIndex index);

  const std::string& path() const { return file_.path(); }
  int64_t num_tokens() const { return index_.num_tokens; }
  TokenType type() const { return index_.type; }
  /// Its tokens are the bytes of a text.
  bool is_text() const { return is_text_; }

  /// The tokens [first, first + tokens.size()), which must be in the file.
  /// Values are as stored; a signed type may hold negative ones.
  /// Throws Error when the file can no longer be read.
  void read(int64_t first, std::span<int64_t> tokens) const;

  /// Documents with at least one token.
  int64_t num_documents() const {
    return static_cast<int64_t>(index_.document_starts.size());
  }
  /// The first tokens of documents within [first, first + length).
  std::span<const int64_t> document_starts(int64_t first, int64_t length) const;
  /// The number of the document that token `token` belongs to.
  int64_t document_of(int64_t token) const;

 private:
  const ReadableFile file_;
  const MegatronIndex index_;
  const bool is_text_;
};

/// Opens `path`: a file is text; the prefix of a .bin and an .idx is a
/// Megatron-LM set. Throws Error when neither or both are there, when one of
/// the pair is missing, and for whatever the index does wrong.
std::shared_ptr<const TokenFile> open_token_file(const std::string& path);

}  // namespace triax
