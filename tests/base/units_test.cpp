// SPDX-License-Identifier: Apache-2.0
#include "triax/base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "triax/base/error.h"

namespace triax {
namespace {

using testing::HasSubstr;

template <class Parse>
std::string refusal(Parse parse, std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Units, ReadsBytes) {
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{1} << 31);
  EXPECT_EQ(parse_bytes("2 GiB"), int64_t{1} << 31);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("0.1KiB"), 102);
  EXPECT_EQ(parse_bytes("1e9"), 1000000000);
  EXPECT_EQ(parse_bytes("9223372036854775807"),
            std::numeric_limits<int64_t>::max());
}

TEST(Units, RefusesWhatIsNotASize) {
  EXPECT_THAT(refusal(parse_bytes, "-1"), HasSubstr("\"-1\" is negative"));
  EXPECT_THAT(refusal(parse_bytes, ""), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, "GiB"), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, " 1"), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, "+1"), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, "inf"), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, "nan"), HasSubstr("begin with a number"));
  EXPECT_THAT(refusal(parse_bytes, "2G"), HasSubstr("\"2GiB\""));
  for (const char* text : {"2G",
                           "2gib",
                           "2GiBs",
                           "2GiB ",
                           "0x10",
                           "1,000",
                           "1_000",
                           "2GB/s",
                           "1 2",
                           "1 "}) {
    EXPECT_THAT(refusal(parse_bytes, text), HasSubstr("unknown unit")) << text;
  }
}

TEST(Units, RefusesSizesBeyondInt64) {
  EXPECT_THAT(refusal(parse_bytes, "9223372036854775808"),
              HasSubstr("out of range"));
  EXPECT_THAT(refusal(parse_bytes, "8192PiB"), HasSubstr("out of range"));
  EXPECT_EQ(parse_bytes("8191PiB"), int64_t{8191} << 50);
  EXPECT_THAT(refusal(parse_bytes, "1e400"), HasSubstr("out of range"));
}

TEST(Units, ReadsBandwidths) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("1GB/s"), 1e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1.5 GiB/s"), 1.5 * 0x1p30);
  EXPECT_DOUBLE_EQ(parse_bandwidth("400Gbit/s"), 50e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1e9"), 1e9);
  EXPECT_THAT(refusal(parse_bandwidth, "1GB"), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal(parse_bandwidth, "1/s"), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal(parse_bandwidth, "1Gb/s"), HasSubstr("bits or bytes"));
  EXPECT_THAT(refusal(parse_bandwidth, "1Gbps"), HasSubstr("bits or bytes"));
  EXPECT_THAT(refusal(parse_bandwidth, "-1GB/s"), HasSubstr("negative"));
  EXPECT_THAT(refusal(parse_bandwidth, "1e308GB/s"), HasSubstr("range"));
}

TEST(Units, ReadsDurations) {
  EXPECT_DOUBLE_EQ(parse_duration("2ms"), 2e-3);
  EXPECT_DOUBLE_EQ(parse_duration("60s"), 60);
  EXPECT_DOUBLE_EQ(parse_duration("60"), 60);
  EXPECT_DOUBLE_EQ(parse_duration("1.5h"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("5us"), parse_duration("5µs"));
  EXPECT_THAT(refusal(parse_duration, "-2ms"), HasSubstr("negative"));
  EXPECT_THAT(refusal(parse_duration, "2min"), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal(parse_duration, "1e308d"), HasSubstr("out of range"));
}

TEST(Units, AHostileTextCannotDriveTheTerminal) {
  EXPECT_THAT(refusal(parse_bytes, "1\033[2J"), HasSubstr("1\\x1b[2J"));
}

TEST(Units, FormatsBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes((int64_t{19} << 30) / 2), "9.5 GiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(-1024), "-1.0 KiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::min()), "-8.0 EiB");
}

TEST(Units, FormatsCounts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(7282), "7,282");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(1234567890), "1,234,567,890");
}

TEST(Units, CountsThings) {
  EXPECT_EQ(counted(0, "stage"), "0 stages");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
  EXPECT_EQ(counted(1, "microbatch"), "1 microbatch");
  EXPECT_EQ(counted(3, "microbatch"), "3 microbatches");
}

TEST(Units, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(4.1e-6), "4.10 us");
  EXPECT_EQ(format_duration(0.123), "123 ms");
  EXPECT_EQ(format_duration(0.9996), "1.00 s");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(59.97), "1m00s");
  EXPECT_EQ(format_duration(125), "2m05s");
  EXPECT_EQ(format_duration(3599.7), "1h00m");
  EXPECT_EQ(format_duration(7800), "2h10m");
  EXPECT_EQ(format_duration(86399), "1d00h");
  EXPECT_EQ(format_duration(76 * 3600), "3d04h");
  EXPECT_EQ(format_duration(-0.5), "-500 ms");
  EXPECT_EQ(format_duration(INFINITY), "inf");
}

TEST(Units, FormatsBandwidths) {
  EXPECT_EQ(format_bandwidth(1.2e9), "1.20 GB/s");
  EXPECT_EQ(format_bandwidth(640e6), "640 MB/s");
  EXPECT_EQ(format_bandwidth(999.6e6), "1.00 GB/s");
}

TEST(Units, WhatIsFormattedReadsBackWithinItsDigits) {
  EXPECT_TRUE(rc::check([] {
    const auto nbytes = *rc::gen::inRange<int64_t>(0, int64_t{1} << 52);
    const auto back = static_cast<double>(parse_bytes(format_bytes(nbytes)));
    RC_ASSERT(std::abs(back - static_cast<double>(nbytes)) <=
              0.051 * static_cast<double>(nbytes));
  }));
}

}  // namespace
}  // namespace triax
