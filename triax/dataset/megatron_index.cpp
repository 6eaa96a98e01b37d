// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/megatron_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "triax/base/error.h"
#include "triax/dataset/readable_file.h"

namespace triax {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 9> kMagic = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr int64_t kHeaderBytes = 34;
constexpr int64_t kBlockElements = 64 * 1024;

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// One of the arrays, read in order, a block at a time.
template <class T>
class ArrayReader {
 public:
  ArrayReader(const ReadableFile& file, int64_t offset, int64_t count)
      : file_(file), offset_(offset), count_(count) {}

  T next() {
    if (index_ == end_) {
      const int64_t length = std::min(kBlockElements, count_ - end_);
      block_.resize(static_cast<size_t>(length));
      file_.read_at(position_of(end_),
                    std::as_writable_bytes(std::span(block_)));
      begin_ = end_;
      end_ += length;
    }
    return block_[static_cast<size_t>(index_++ - begin_)];
  }

  bool is_done() const { return index_ == count_; }
  /// The offset in the file of the element that next() gave last.
  int64_t last_position() const { return position_of(index_ - 1); }

 private:
  int64_t position_of(int64_t index) const {
    return offset_ + index * static_cast<int64_t>(sizeof(T));
  }

  const ReadableFile& file_;
  const int64_t offset_;
  const int64_t count_;
  std::vector<T> block_;
  int64_t begin_ = 0;  // of block_
  int64_t end_ = 0;
  int64_t index_ = 0;
};

struct Header {
  TokenType type = TokenType::kI32;
  int64_t num_sequences = 0;
  int64_t num_boundaries = 0;
  bool has_modes = false;
};

TokenType parse_type(const std::string& path, uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kU8;
    case 2:
      return TokenType::kI8;
    case 3:
      return TokenType::kI16;
    case 4:
      return TokenType::kI32;
    case 5:
      return TokenType::kI64;
    case 8:
      return TokenType::kU16;
    case 6:
    case 7:
      throw Error(path,
                  ": offset 17: token type ",
                  int{code},
                  " is a floating-point type; tokens must be integers (write "
                  "the set again with uint16 or int32)");
    default:
      throw Error(path,
                  ": offset 17: token type ",
                  int{code},
                  " is none of 1, 2, 3, 4, 5, 8");
  }
}

Header read_header(const ReadableFile& file) {
  const std::string& path = file.path();
  std::array<std::byte, kHeaderBytes> bytes;
  if (file.nbytes() < kHeaderBytes) {
    throw Error(path,
                ": has ",
                file.nbytes(),
                " bytes, but the header of a Megatron-LM index alone takes ",
                kHeaderBytes);
  }
  file.read_at(0, bytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw Error(path,
                ": offset 0: does not begin with MMIDIDX: this is not a "
                "Megatron-LM index");
  }
  const auto version = load<uint64_t>(bytes.data() + 9);
  if (version != 1) {
    throw Error(
        path, ": offset 9: version ", version, "; only version 1 is known");
  }
  Header header;
  header.type = parse_type(path, load<uint8_t>(bytes.data() + 17));
  const auto sequences = load<uint64_t>(bytes.data() + 18);
  const auto boundaries = load<uint64_t>(bytes.data() + 26);
  const auto nbytes = static_cast<uint64_t>(file.nbytes());
  // Counts above the file's size could overflow the sum below.
  const bool is_possible = sequences <= nbytes && boundaries <= nbytes;
  const uint64_t announced = kHeaderBytes + 12 * sequences + 8 * boundaries;
  header.has_modes = is_possible && announced + sequences == nbytes;
  if (!is_possible || (announced != nbytes && !header.has_modes)) {
    throw Error(path,
                ": offset 18: ",
                sequences,
                " sequences and ",
                boundaries,
                " document boundaries do not make a file of ",
                nbytes,
                " bytes; it is truncated or damaged");
  }
  header.has_modes = header.has_modes && announced != nbytes;
  header.num_sequences = static_cast<int64_t>(sequences);
  header.num_boundaries = static_cast<int64_t>(boundaries);
  return header;
}

void check_modes(const ReadableFile& file, const Header& header) {
  ArrayReader<int8_t> modes(
      file, file.nbytes() - header.num_sequences, header.num_sequences);
  while (!modes.is_done()) {
    const int mode = modes.next();
    if (mode != 0) {
      throw Error(file.path(),
                  ": offset ",
                  modes.last_position(),
                  ": a sequence of mode ",
                  mode,
                  " (multimodal); only text is read");
    }
  }
}

// The document boundaries, met in the order of the sequences.
class Boundaries {
 public:
  Boundaries(const ReadableFile& file, const Header& header)
      : file_(file),
        num_sequences_(header.num_sequences),
        values_(file,
                kHeaderBytes + 12 * header.num_sequences,
                header.num_boundaries) {
    if (values_.is_done() || advance() != 0) {
      throw Error(file.path(), ": the document boundaries must begin with 0");
    }
  }

  /// Moves past every boundary at `sequence`; whether there was one.
  bool pass(int64_t sequence) {
    bool has_passed = false;
    while (!is_past_ && current_ == sequence) {
      has_passed = true;
      is_past_ = values_.is_done();
      if (!is_past_) {
        advance();
      }
    }
    return has_passed;
  }

  void check_end() {
    pass(num_sequences_);
    if (!is_past_ || current_ != num_sequences_) {
      throw Error(file_.path(),
                  ": the document boundaries must end with the number of "
                  "sequences, ",
                  num_sequences_,
                  ", not ",
                  current_);
    }
  }

 private:
  int64_t advance() {
    const int64_t value = values_.next();
    if (value < current_ || value > num_sequences_) {
      throw Error(file_.path(),
                  ": offset ",
                  values_.last_position(),
                  ": document boundary ",
                  value,
                  " must be between the one before (",
                  current_,
                  ") and the number of sequences (",
                  num_sequences_,
                  ")");
    }
    current_ = value;
    return value;
  }

  const ReadableFile& file_;
  const int64_t num_sequences_;
  ArrayReader<int64_t> values_;
  int64_t current_ = 0;
  bool is_past_ = false;
};

// The byte after the sequence whose length and offset stand next.
int64_t check_sequence(const std::string& path,
                       ArrayReader<int32_t>& lengths,
                       ArrayReader<int64_t>& offsets,
                       int64_t begin,
                       int64_t itemsize) {
  const int64_t length = lengths.next();
  if (length < 0) {
    throw Error(path,
                ": offset ",
                lengths.last_position(),
                ": a sequence of ",
                length,
                " tokens");
  }
  const int64_t offset = offsets.next();
  if (offset != begin) {
    throw Error(path,
                ": offset ",
                offsets.last_position(),
                ": a sequence begins at byte ",
                offset,
                " of the .bin, but the one before ends at ",
                begin);
  }
  return begin + length * itemsize;
}

}  // namespace

MegatronIndex read_megatron_index(const std::string& path, int64_t bin_nbytes) {
  const ReadableFile file(path);
  const Header header = read_header(file);
  const int64_t itemsize = token_bytes(header.type);
  ArrayReader<int32_t> lengths(file, kHeaderBytes, header.num_sequences);
  ArrayReader<int64_t> offsets(
      file, kHeaderBytes + 4 * header.num_sequences, header.num_sequences);
  Boundaries boundaries(file, header);
  MegatronIndex index;
  index.type = header.type;
  int64_t begin = 0;  // in the .bin
  for (int64_t i = 0; i < header.num_sequences; ++i) {
    if (boundaries.pass(i)) {
      const int64_t start = begin / itemsize;
      // An empty document begins where the next one does.
      if (index.document_starts.empty() ||
          index.document_starts.back() != start) {
        index.document_starts.push_back(start);
      }
    }
    begin = check_sequence(path, lengths, offsets, begin, itemsize);
    if (begin > bin_nbytes) {
      break;
    }
  }
  if (begin != bin_nbytes) {
    throw Error(path,
                ": its sequences end at byte ",
                begin,
                begin > bin_nbytes ? " or later" : "",
                " of the .bin, which has ",
                bin_nbytes,
                " bytes; the two files do not belong together, or one is "
                "truncated");
  }
  boundaries.check_end();
  if (header.has_modes) {
    check_modes(file, header);
  }
  index.num_tokens = bin_nbytes / itemsize;
  if (!index.document_starts.empty() &&
      index.document_starts.back() == index.num_tokens) {
    index.document_starts.pop_back();
  }
  return index;
}

}  // namespace triax
