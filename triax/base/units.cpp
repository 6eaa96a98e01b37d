// SPDX-License-Identifier: Apache-2.0
#include "triax/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "triax/base/error.h"
#include "triax/base/log.h"

namespace triax {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kBytes{
    Unit{"", 1.0},
    Unit{"B", 1.0},
    Unit{"kB", 1e3},
    Unit{"KB", 1e3},
    Unit{"MB", 1e6},
    Unit{"GB", 1e9},
    Unit{"TB", 1e12},
    Unit{"PB", 1e15},
    Unit{"KiB", 0x1p10},
    Unit{"MiB", 0x1p20},
    Unit{"GiB", 0x1p30},
    Unit{"TiB", 0x1p40},
    Unit{"PiB", 0x1p50},
};

constexpr std::array kBits{
    Unit{"bit", 1.0 / 8},
    Unit{"kbit", 1e3 / 8},
    Unit{"Mbit", 1e6 / 8},
    Unit{"Gbit", 1e9 / 8},
    Unit{"Tbit", 1e12 / 8},
};

constexpr std::array kSeconds{
    Unit{"", 1.0},
    Unit{"ns", 1e-9},
    Unit{"us", 1e-6},
    Unit{"µs", 1e-6},
    Unit{"ms", 1e-3},
    Unit{"s", 1.0},
    Unit{"m", 60.0},
    Unit{"h", 3600.0},
    Unit{"d", 86400.0},
};

constexpr std::string_view kBytesRule =
    "a size is a number and B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB, "
    "as in \"2GiB\"";
constexpr std::string_view kBandwidthRule =
    "a bandwidth is a number and MB/s, GB/s, GiB/s, … or Gbit/s, as in "
    "\"1GB/s\"";
constexpr std::string_view kDurationRule =
    "a duration is a number and ns, us, ms, s, m, h or d, as in \"60s\"";

[[noreturn]] void refuse(std::string_view text,
                         std::string_view fault,
                         std::string_view rule) {
  throw Error("\"", escape_controls(text), "\" ", fault, "; ", rule);
}

struct Quantity {
  std::string_view number;
  double value = 0.0;
  std::string_view unit;
};

// "0x", "inf" and "nan", which from_chars would take, fall out by their start.
Quantity split_quantity(std::string_view text, std::string_view rule) {
  if (text.starts_with('-')) {
    refuse(text, "is negative", rule);
  }
  if (text.empty() || text.front() < '0' || text.front() > '9') {
    refuse(text, "does not begin with a number", rule);
  }
  Quantity out;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, out.value);
  if (fault == std::errc::result_out_of_range || !std::isfinite(out.value)) {
    refuse(text, "is out of range", rule);
  }
  out.number = {text.data(), static_cast<size_t>(stop - text.data())};
  out.unit = {stop, static_cast<size_t>(end - stop)};
  while (out.unit.starts_with(' ') && out.unit.size() > 1) {
    out.unit.remove_prefix(1);
  }
  return out;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) {
      return &unit;
    }
  }
  return nullptr;
}

// Whole numbers are multiplied exactly: a double holds only 53 bits.
bool whole_product(const Quantity& quantity, double factor, int64_t& product) {
  int64_t whole = 0;
  const char* const end = quantity.number.data() + quantity.number.size();
  const auto [stop, fault] =
      std::from_chars(quantity.number.data(), end, whole);
  return fault == std::errc() && stop == end &&
         !__builtin_mul_overflow(whole, static_cast<int64_t>(factor), &product);
}

std::string scaled(double value, std::string_view unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string two_units(int64_t large,
                      char large_unit,
                      int64_t small,
                      char small_unit) {
  return fmt::format("{}{}{:02}{}", large, large_unit, small, small_unit);
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const Quantity quantity = split_quantity(text, kBytesRule);
  const Unit* const unit = find_unit(kBytes, quantity.unit);
  if (unit == nullptr) {
    refuse(text, "has an unknown unit", kBytesRule);
  }
  int64_t product = 0;
  if (whole_product(quantity, unit->factor, product)) {
    return product;
  }
  const double nbytes = std::round(quantity.value * unit->factor);
  if (!(nbytes < 0x1p63)) {
    refuse(text, "is out of range (2^63 bytes)", kBytesRule);
  }
  return static_cast<int64_t>(nbytes);
}

double parse_bandwidth(std::string_view text) {
  const Quantity quantity = split_quantity(text, kBandwidthRule);
  std::string_view name = quantity.unit;
  if (name.ends_with("b/s") || name.ends_with("bps")) {
    refuse(text, "may mean bits or bytes", kBandwidthRule);
  }
  const Unit* unit = find_unit(kBytes, name);
  if (!name.empty()) {
    unit = nullptr;
    if (name.ends_with("/s") && name.size() > 2) {
      name.remove_suffix(2);
      unit = find_unit(kBytes, name);
      unit = unit != nullptr ? unit : find_unit(kBits, name);
    }
  }
  if (unit == nullptr) {
    refuse(text, "has an unknown unit", kBandwidthRule);
  }
  const double bytes_per_second = quantity.value * unit->factor;
  if (!std::isfinite(bytes_per_second)) {
    refuse(text, "is out of range", kBandwidthRule);
  }
  return bytes_per_second;
}

double parse_duration(std::string_view text) {
  const Quantity quantity = split_quantity(text, kDurationRule);
  const Unit* const unit = find_unit(kSeconds, quantity.unit);
  if (unit == nullptr) {
    refuse(text, "has an unknown unit", kDurationRule);
  }
  const double seconds = quantity.value * unit->factor;
  if (!std::isfinite(seconds)) {
    refuse(text, "is out of range", kDurationRule);
  }
  return seconds;
}

std::string format_bytes(int64_t nbytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (nbytes > -1024 && nbytes < 1024) {
    return fmt::format("{} B", nbytes);
  }
  double value = static_cast<double>(nbytes) / 1024;
  size_t unit = 0;
  while (std::abs(value) >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}",
                     count,
                     noun,
                     count == 1             ? ""
                     : noun.ends_with("ch") ? "es"
                                            : "s");
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) {
    return fmt::format("{}", seconds);
  }
  if (seconds < 0) {
    return "-" + format_duration(-seconds);
  }
  if (seconds == 0) {
    return "0 s";
  }
  if (seconds < 999.5e-9) {
    return scaled(seconds * 1e9, "ns");
  }
  if (seconds < 999.5e-6) {
    return scaled(seconds * 1e6, "us");
  }
  if (seconds < 999.5e-3) {
    return scaled(seconds * 1e3, "ms");
  }
  if (seconds < 59.95) {
    return scaled(seconds, "s");
  }
  if (seconds < 3599.5) {
    const int64_t whole = std::llround(seconds);
    return two_units(whole / 60, 'm', whole % 60, 's');
  }
  if (seconds < 86370) {
    const int64_t minutes = std::llround(seconds / 60);
    return two_units(minutes / 60, 'h', minutes % 60, 'm');
  }
  if (seconds > 1e15) {
    return fmt::format("{:.3g} s", seconds);
  }
  const int64_t hours = std::llround(seconds / 3600);
  return two_units(hours / 24, 'd', hours % 24, 'h');
}

std::string format_bandwidth(double bytes_per_second) {
  constexpr std::array kUnits{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  double value = bytes_per_second;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return scaled(value, kUnits[unit]);
}

}  // namespace triax
