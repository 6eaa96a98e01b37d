// SPDX-License-Identifier: Apache-2.0
#include "triax/base/json.h"

#include <cmath>
#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

// Builds the document as nlohmann's own reader does, with the two guards that
// it lacks: depth and duplicate keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& name, int max_depth)
      : name_(name), max_depth_(max_depth) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      throw Error(name_, ": the key \"", name, "\" stands twice in one object");
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t,
                   const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, …"
    const size_t end = what.find("] ");
    throw Error(
        name_, ": ", end == std::string::npos ? what : what.substr(end + 2));
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      throw Error(name_, ": nested more than ", max_depth_, " levels deep");
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  const int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

void find_non_finite(const Json& value,
                     const std::string& place,
                     std::vector<std::string>& replaced) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    replaced.push_back(place);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      find_non_finite(item, place + "/" + key, replaced);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      find_non_finite(value[i], place + "/" + std::to_string(i), replaced);
    }
  }
}

}  // namespace

Json parse_json(std::string_view text,
                const std::string& name,
                const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    throw Error(name,
                ": holds ",
                text.size(),
                " bytes, and at most ",
                limits.max_bytes,
                " are read");
  }
  Builder builder(name, limits.max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    throw Error(name, ": not a JSON document");
  }
  return builder.take();
}

std::string dump_json(const Json& value, std::vector<std::string>* replaced) {
  if (replaced != nullptr) {
    find_non_finite(value, "", *replaced);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace triax
