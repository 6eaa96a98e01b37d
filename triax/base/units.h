// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triax {

// Reading: a decimal number ("2", "1.5", "1e9"), optional spaces, a unit. The
// whole text must fit; a negative number, one that is too large or not finite,
// an unknown or ambiguous unit throw an Error of one sentence that shows the
// text and what may be written.

/// Bytes: "2GiB" = 2^31, "2GB" = 2·10^9, "4096", "1.5 MiB" (rounded to whole
/// bytes). Units: B; kB MB GB TB PB (1000); KiB MiB GiB TiB PiB (1024).
int64_t parse_bytes(std::string_view text);

/// Bytes per second: "1GB/s", "400Gbit/s" (bits, ÷ 8), "1e9". Units: those of
/// parse_bytes() with "/s", and bit, kbit, Mbit, Gbit, Tbit with "/s". "Gb/s"
/// is refused: it may mean either.
double parse_bandwidth(std::string_view text);

/// Seconds: "2ms", "60s", "1.5h", "60". Units: ns us (or µs) ms s m h d.
double parse_duration(std::string_view text);

/// "512 B", "9.5 GiB", "-1.0 KiB": one decimal, units of 1024.
std::string format_bytes(int64_t nbytes);

/// "7,282".
std::string format_count(int64_t count);

/// "1 rank", "2 ranks", "3 microbatches": nouns whose plural ends in s or es.
std::string counted(int64_t count, std::string_view noun);

/// Three significant digits below a minute ("4.10 us", "123 ms", "12.3 s"),
/// above it two units ("2m05s", "2h10m", "3d04h"). "-" in front if negative;
/// "inf" and "nan" as they are.
std::string format_duration(double seconds);

/// "1.20 GB/s", "640 MB/s": three significant digits, units of 1000.
std::string format_bandwidth(double bytes_per_second);

}  // namespace triax
