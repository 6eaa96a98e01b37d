// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/token_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

template <class T>
void widen(std::span<const std::byte> bytes, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    tokens[i] = static_cast<int64_t>(value);
  }
}

void widen(TokenType type,
           std::span<const std::byte> bytes,
           std::span<int64_t> tokens) {
  switch (type) {
    case TokenType::kU8:
      return widen<uint8_t>(bytes, tokens);
    case TokenType::kI8:
      return widen<int8_t>(bytes, tokens);
    case TokenType::kI16:
      return widen<int16_t>(bytes, tokens);
    case TokenType::kI32:
      return widen<int32_t>(bytes, tokens);
    case TokenType::kI64:
      return widen<int64_t>(bytes, tokens);
    case TokenType::kU16:
      return widen<uint16_t>(bytes, tokens);
  }
}

MegatronIndex index_of_text(int64_t nbytes) {
  MegatronIndex index;
  index.type = TokenType::kU8;
  index.num_tokens = nbytes;
  if (nbytes > 0) {
    index.document_starts = {0};
  }
  return index;
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) &&
         !std::filesystem::is_directory(status);
}

// Half of a Megatron-LM pair would otherwise be read as text.
void refuse_half_of_pair(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string extension = whole.extension();
  if (extension != ".bin" && extension != ".idx") {
    return;
  }
  const std::string prefix = (whole.parent_path() / whole.stem()).string();
  const std::string other = prefix + (extension == ".bin" ? ".idx" : ".bin");
  if (is_there(path) && is_there(other)) {
    throw Error(path,
                ": is one file of a Megatron-LM set; give their prefix, ",
                prefix);
  }
}

}  // namespace

TokenFile::TokenFile(ReadableFile text)
    : file_(std::move(text)),
      index_(index_of_text(file_.nbytes())),
      is_text_(true) {}

TokenFile::TokenFile(ReadableFile bin, MegatronIndex index)
    : file_(std::move(bin)), index_(std::move(index)), is_text_(false) {}

void TokenFile::read(int64_t first, std::span<int64_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  TRIAX_CHECK(first >= 0 && count <= num_tokens() - first,
              first,
              " + ",
              count,
              " of ",
              num_tokens());
  const int64_t itemsize = token_bytes(type());
  std::vector<std::byte> bytes(static_cast<size_t>(count * itemsize));
  file_.read_at(first * itemsize, bytes);
  widen(type(), bytes, tokens);
}

std::span<const int64_t> TokenFile::document_starts(int64_t first,
                                                    int64_t length) const {
  const std::vector<int64_t>& starts = index_.document_starts;
  const auto begin = std::lower_bound(starts.begin(), starts.end(), first);
  const auto end = std::lower_bound(begin, starts.end(), first + length);
  return {begin, end};
}

int64_t TokenFile::document_of(int64_t token) const {
  TRIAX_CHECK(token >= 0 && token < num_tokens(), token);
  const std::vector<int64_t>& starts = index_.document_starts;
  const auto after = std::upper_bound(starts.begin(), starts.end(), token);
  return after - starts.begin() - 1;
}

std::shared_ptr<const TokenFile> open_token_file(const std::string& path) {
  refuse_half_of_pair(path);
  const std::string bin = path + ".bin";
  const std::string idx = path + ".idx";
  const bool has_bin = is_there(bin);
  const bool has_idx = is_there(idx);
  const bool has_text = is_there(path);
  if (has_text && has_bin && has_idx) {
    throw Error(path,
                ": is a file and also the prefix of ",
                bin,
                " and ",
                idx,
                "; rename one so that it is clear which is meant");
  }
  if (has_text) {
    return std::make_shared<TokenFile>(ReadableFile(path));
  }
  if (has_bin != has_idx) {
    throw Error(has_bin ? idx : bin,
                ": is missing, but ",
                has_bin ? bin : idx,
                " is there; a Megatron-LM set needs both");
  }
  if (!has_bin) {
    throw Error(path,
                ": there is no such file, nor ",
                bin,
                " with ",
                idx,
                "; give a text file or the prefix of a Megatron-LM set");
  }
  ReadableFile tokens(bin);
  MegatronIndex index = read_megatron_index(idx, tokens.nbytes());
  return std::make_shared<TokenFile>(std::move(tokens), std::move(index));
}

}  // namespace triax
