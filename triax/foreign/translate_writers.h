// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "triax/base/json.h"
#include "triax/foreign/foreign_config.h"

namespace triax {

/// One key of the config that is written, and its value.
using KeyValue = std::pair<std::string, Json>;

/// What one system makes of a fact. Returns keys and values; none and a
/// reason in `why`: it has no key for it. None without a reason: nothing needs
/// to be written.
using FactWriter = std::vector<KeyValue> (*)(const std::string& name,
                                             const Json& value,
                                             std::string& why);

/// Collects keys in order and writes them in the system's own form.
class TargetWriter {
 public:
  TargetWriter(System system, FactWriter writer)
      : system_(system), writer_(writer) {}

  /// Why the fact is not carried; empty: it is, or need not be.
  std::string write(const std::string& name, const Json& value);
  std::string text() const;

 private:
  System system_;
  FactWriter writer_;
  std::vector<KeyValue> keys_;
};

TargetWriter make_writer(System to);

std::vector<KeyValue> write_deepspeed(const std::string& name,
                                      const Json& value,
                                      std::string& why);
std::vector<KeyValue> write_megatron(const std::string& name,
                                     const Json& value,
                                     std::string& why);
std::vector<KeyValue> write_torchtitan(const std::string& name,
                                       const Json& value,
                                       std::string& why);
std::vector<KeyValue> write_nanotron(const std::string& name,
                                     const Json& value,
                                     std::string& why);
std::vector<KeyValue> write_triax(const std::string& name,
                                  const Json& value,
                                  std::string& why);

}  // namespace triax
