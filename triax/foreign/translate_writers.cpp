// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate_writers.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/base/rounding.h"

namespace triax {
namespace {

struct TargetRow {
  System system;
  void (*write)(TargetWriter&, const NamedFact&);
  void (*finish)(TargetWriter&);
};

// One row for each system that configs are written for.
constexpr TargetRow kTargets[] = {
    {System::kTriax, write_triax, finish_triax},
    {System::kDeepSpeed, write_deepspeed, finish_deepspeed},
    {System::kMegatron, write_megatron, finish_megatron},
    {System::kTorchTitan, write_torchtitan, finish_torchtitan},
    {System::kNanotron, write_nanotron, finish_nanotron},
};

}  // namespace

std::string product_precision(const TargetWriter& out) {
  const std::string precision = out.word("precision");
  return precision == "bf16_autocast" ? "bf16" : precision;
}

std::string plain_schedule(const std::string& schedule) {
  if (schedule == "cosine" || schedule == "WarmupCosineLR") {
    return "cosine";
  }
  if (schedule == "linear" || schedule == "WarmupDecayLR") {
    return "linear";
  }
  return schedule == "constant" || schedule == "WarmupLR" ? "constant" : "";
}

int64_t usual_steps(const TargetWriter& out) {
  constexpr int64_t kFew = 1000;
  const int64_t warmup = out.whole("warmup_steps", 0);
  return warmup > 0 && warmup < (int64_t{1} << 40) ? std::max(kFew, 10 * warmup)
                                                   : kFew;
}

int64_t usual_sequence(const TargetWriter& out) {
  constexpr int64_t kUsual = 2048;
  const int64_t tp = std::clamp<int64_t>(out.whole("tp", 1), 1, 1 << 12);
  const int64_t cp = std::clamp<int64_t>(out.whole("cp", 1), 1, 1 << 12);
  const int64_t unit = 2 * tp * cp;
  const int64_t most = std::min(
      kUsual, std::max<int64_t>(1, out.whole("max_positions", kUsual)));
  return most < unit ? unit : most / unit * unit;
}

void stand_in_model(TargetWriter& out, const ModelKeys& keys) {
  const char* const what = "the source does not say the model; give --model";
  const int64_t tp = std::clamp<int64_t>(out.whole("tp", 1), 1, 1 << 12);
  const int64_t pp = std::clamp<int64_t>(out.whole("pp", 1), 1, 1 << 12);
  const auto said = [&out](const std::string& key) {
    const Json* value = out.value(key);
    return value != nullptr && value->is_number_integer()
               ? std::clamp<int64_t>(value->get<int64_t>(), 1, 1 << 20)
               : int64_t{1};
  };
  out.stand_in(keys.layers, round_up<int64_t>(32, pp), what);
  out.stand_in(keys.heads, std::max<int64_t>(1, 32 / tp) * tp, what);
  out.stand_in(keys.kv_heads, said(keys.heads), what);
  out.stand_in(keys.hidden, 128 * said(keys.heads), what);
  out.stand_in(keys.ffn, 4 * said(keys.hidden), what);
  out.stand_in(keys.vocabulary, 32768, what);
}

bool is_adam(const std::string& optimizer) {
  return optimizer == "adam" || optimizer == "adamw";
}

TargetWriter::TargetWriter(const TranslationSource& source,
                           System to,
                           std::string_view version)
    : source_(source), to_(to), version_(version) {}

int64_t TargetWriter::whole(std::string_view fact, int64_t or_else) const {
  const NamedFact* found = find(fact);
  return found != nullptr && found->value.is_number_integer()
             ? found->value.get<int64_t>()
             : or_else;
}

double TargetWriter::real(std::string_view fact, double or_else) const {
  const NamedFact* found = find(fact);
  return found != nullptr && found->value.is_number()
             ? found->value.get<double>()
             : or_else;
}

std::string TargetWriter::word(std::string_view fact,
                               std::string_view or_else) const {
  const NamedFact* found = find(fact);
  return found != nullptr && found->value.is_string()
             ? found->value.get<std::string>()
             : std::string(or_else);
}

bool TargetWriter::flag(std::string_view fact, bool or_else) const {
  const NamedFact* found = find(fact);
  return found != nullptr && found->value.is_boolean()
             ? found->value.get<bool>()
             : or_else;
}

void TargetWriter::put(const std::string& key, Json value) {
  if (this->value(key) == nullptr) {
    keys_.push_back({key, std::move(value), current_, false});
  } else {
    imply();
  }
}

void TargetWriter::lose(const std::string& why) {
  lose_fact(current_, why);
}

void TargetWriter::carry(const std::string& fact) {
  losses_.erase(fact);
  implied_.push_back(fact);
}

void TargetWriter::lose_fact(const std::string& fact, const std::string& why) {
  losses_[fact] = why;
}

const Json* TargetWriter::value(const std::string& key) const {
  const auto found = std::ranges::find(keys_, key, &WrittenKey::key);
  return found == keys_.end() ? nullptr : &found->value;
}

void TargetWriter::set(const std::string& key, Json value) {
  if (this->value(key) == nullptr) {
    keys_.push_back({key, std::move(value), "", false});
  }
}

void TargetWriter::stand_in(const std::string& key,
                            Json value,
                            const std::string& what) {
  if (this->value(key) == nullptr) {
    open_.push_back(
        fmt::format("{} ({} stands in): {}", key, dump_json(value), what));
    keys_.push_back({key, std::move(value), "", true});
  }
}

void TargetWriter::leave_open(const std::string& key, const std::string& what) {
  if (value(key) == nullptr) {
    open_.push_back(fmt::format(
        "{}{}: {}", to_ == System::kMegatron ? "--" : "", key, what));
  }
}

void TargetWriter::drop(const std::string& prefix, const std::string& why) {
  for (const WrittenKey& key : keys_) {
    if (key.key.starts_with(prefix) && !key.fact.empty()) {
      losses_.emplace(key.fact, why);
    }
  }
  std::erase_if(keys_, [&prefix](const WrittenKey& key) {
    return key.key.starts_with(prefix);
  });
}

Json TargetWriter::take(const std::string& key) {
  const auto found = std::ranges::find(keys_, key, &WrittenKey::key);
  if (found == keys_.end()) {
    return nullptr;
  }
  Json value = std::move(found->value);
  if (!found->fact.empty()) {
    implied_.push_back(found->fact);
  }
  keys_.erase(found);
  return value;
}

std::vector<std::string> TargetWriter::keys() const {
  std::vector<std::string> keys;
  for (const WrittenKey& key : keys_) {
    keys.push_back(key.key);
  }
  return keys;
}

void TargetWriter::rename(const std::string& key, const std::string& to) {
  const auto found = std::ranges::find(keys_, key, &WrittenKey::key);
  if (found != keys_.end() && value(to) == nullptr) {
    found->key = to;
  }
}

void TargetWriter::write_all() {
  const auto row = std::ranges::find(kTargets, to_, &TargetRow::system);
  for (const NamedFact& fact : source_.facts) {
    current_ = fact.name;
    row->write(*this, fact);
    if (!is_carried(fact.name) && !losses_.contains(fact.name)) {
      lose(fact.name == "warmup_shape"
               ? "the warm-up is linear here, and rises faster at first there"
               : "it has no key for it");
    }
  }
  current_.clear();
  drop_misfits();
  row->finish(*this);
  judge_batch();
}

// Of four numbers that contradict each other, not all can be carried.
void TargetWriter::judge_batch() {
  constexpr int64_t kMax = 1 << 20;
  int64_t product = 1;
  for (const char* name : {"microbatch", "accumulation", "dp"}) {
    const int64_t count = whole(name, 0);
    if (count < 1 || count > kMax) {
      return;
    }
    product *= count;
  }
  const int64_t global = whole("global_batch", product);
  if (global != product) {
    const std::string why = fmt::format(
        "microbatch * accumulation * dp = {}, and not {}", product, global);
    lose_fact("global_batch", why);
    lose_fact("accumulation", why);
  }
}

bool TargetWriter::is_carried(const std::string& fact) const {
  return std::ranges::find(implied_, fact) != implied_.end() ||
         is_written(fact);
}

bool TargetWriter::is_written(const std::string& fact) const {
  return std::ranges::find(keys_, fact, &WrittenKey::fact) != keys_.end();
}

std::string TargetWriter::text() const {
  return text_of_target(to_, keys_);
}

bool write_by_row(TargetWriter& out,
                  std::string_view fact,
                  std::span<const FactWriter> rows) {
  const auto row = std::ranges::find(rows, fact, &FactWriter::fact);
  if (row == rows.end()) {
    return false;
  }
  row->write(out);
  return true;
}

}  // namespace triax
