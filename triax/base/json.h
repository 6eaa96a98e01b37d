// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

using Json = nlohmann::json;

struct JsonLimits {
  int max_depth = 64;
  int64_t max_bytes = 10 << 20;
};

/// Parses one JSON document. Throws Error, with `name` and where in the text,
/// on bad syntax or UTF-8, on a key that stands twice in one object (other
/// readers would each keep another one), on a number that no double holds,
/// and when a limit is passed. Does not recurse.
Json parse_json(std::string_view text,
                const std::string& name,
                const JsonLimits& limits = {});

/// One line of JSON. JSON has no NaN and no infinity: each becomes null, and
/// its place ("/steps/3/loss") is added to `replaced`. Bytes that are not
/// UTF-8 become U+FFFD.
std::string dump_json(const Json& value,
                      std::vector<std::string>* replaced = nullptr);

}  // namespace triax
