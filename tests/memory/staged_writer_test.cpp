// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/staged_writer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"
#include "triax/memory/io_buffer.h"

namespace triax {
namespace {

constexpr int64_t kBlock = kIoAlignment;

at::Tensor numbers(int64_t count, int64_t first) {
  return at::arange(first, first + count).remainder(251).to(at::kByte);
}

/// Bytes of the file from `offset` on.
at::Tensor content(SpillFile& file, int64_t offset, int64_t nbytes) {
  const at::Tensor buffer = make_io_buffer(nbytes);
  file.read(offset, buffer.data_ptr(), buffer.numel()).wait();
  return buffer.narrow(0, 0, nbytes);
}

class StagedWriterTest : public testing::Test {
 protected:
  void write(int64_t offset, const at::Tensor& bytes) {
    const at::Tensor gone = bytes.clone();
    writer_.write(offset, gone.data_ptr(), gone.numel());
    gone.fill_(255);
  }

  void expect_content(int64_t offset, const at::Tensor& bytes) {
    EXPECT_TRUE(bits_equal(content(file_, offset, bytes.numel()), bytes))
        << "at " << offset;
  }

  SpillFile file_{"/dev/shm", 64 * kBlock};
  StagedWriter writer_{file_, 2 * kBlock, 2};
};

TEST_F(StagedWriterTest, WritesMoreThanItsBuffers) {
  const at::Tensor bytes = numbers(19 * kBlock + 17, 3);
  write(kBlock, bytes);
  writer_.wait(writer_.last_number());
  EXPECT_EQ(writer_.last_number(), 10);
  expect_content(kBlock, bytes);
}

TEST_F(StagedWriterTest, PutsNeighboursIntoOneBuffer) {
  write(0, numbers(100, 1));
  write(kBlock, numbers(200, 2));
  EXPECT_EQ(writer_.last_number(), 1);
  EXPECT_EQ(file_.moved().written, 2 * kBlock);
  write(5 * kBlock, numbers(300, 3));
  write(4 * kBlock, numbers(400, 4));  // not behind it
  EXPECT_EQ(writer_.last_number(), 3);
  EXPECT_EQ(file_.moved().written, 3 * kBlock);
  writer_.wait(3);
  EXPECT_EQ(file_.moved().written, 4 * kBlock);
  expect_content(0, numbers(100, 1));
  expect_content(kBlock, numbers(200, 2));
  expect_content(5 * kBlock, numbers(300, 3));
  expect_content(4 * kBlock, numbers(400, 4));
  // The rest of a block is zeros.
  const at::Tensor rest = content(file_, 0, kBlock).narrow(0, 100, 1000);
  EXPECT_TRUE(bits_equal(rest, at::zeros_like(rest)));
}

TEST_F(StagedWriterTest, WaitsForWhatIsAskedAlone) {
  write(0, numbers(100, 1));
  writer_.wait(0);
  EXPECT_EQ(file_.moved().written, 0);
  writer_.wait(1);
  EXPECT_EQ(file_.moved().written, kBlock);
  // Its buffer has gone out: a neighbour gets another.
  write(kBlock, numbers(100, 1));
  EXPECT_EQ(writer_.last_number(), 2);
}

}  // namespace
}  // namespace triax
