// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triax/base/json.h"
#include "triax/foreign/translate_source.h"

namespace triax {

/// One key of the config that is written, its value, and the fact behind it.
struct WrittenKey {
  std::string key;
  Json value;
  std::string fact;  // empty: it belongs to the form, or stands in
  bool is_stand_in = false;
};

/// Collects what is written for one system, fact by fact, and what becomes of
/// each fact. A fact that a writer says nothing of is lost: none is dropped in
/// silence.
class TargetWriter {
 public:
  TargetWriter(const TranslationSource& source, System to);

  System from() const { return source_.system; }
  System to() const { return to_; }
  /// nullptr: not said.
  const NamedFact* find(std::string_view fact) const {
    return source_.find(fact);
  }
  bool is_said(std::string_view fact) const { return find(fact) != nullptr; }
  int64_t whole(std::string_view fact, int64_t or_else) const;
  double real(std::string_view fact, double or_else) const;
  std::string word(std::string_view fact, std::string_view or_else = "") const;
  bool flag(std::string_view fact, bool or_else) const;

  // Of the fact that is being written.

  /// It becomes this key; the first of two equal keys stays.
  void put(const std::string& key, Json value);
  /// It follows from what else is written, or is how the system works anyway.
  void imply() { implied_.push_back(current_); }
  /// It is not carried, or not as it stands.
  void lose(const std::string& why);

  // Once all facts are written.

  const Json* value(const std::string& key) const;
  /// Part of the form: what the system needs beside another key.
  void set(const std::string& key, Json value);
  /// What the system must be told and nobody said: `value` stands in for it.
  void stand_in(const std::string& key, Json value, const std::string& what);
  /// The same, and nothing can stand in.
  void leave_open(const std::string& key, const std::string& what);
  /// Something beside the config that is to be seen to.
  void remind(const std::string& what) { open_.push_back(what); }
  /// Takes the keys that begin with `prefix` out again; their facts are lost.
  void drop(const std::string& prefix, const std::string& why);
  /// Takes one key out; its value goes into another one.
  Json take(const std::string& key);
  /// A fact is behind what is written after all, or is not.
  void carry(const std::string& fact);
  void lose_fact(const std::string& fact, const std::string& why);

  /// Writes every fact by the system's writer, and finishes.
  void write_all();

  bool is_carried(const std::string& fact) const;
  /// A key stands for it.
  bool is_written(const std::string& fact) const;
  /// Why a fact is not carried, or not as it stands.
  const std::map<std::string, std::string>& losses() const { return losses_; }
  const std::vector<std::string>& open() const { return open_; }
  std::string text() const;

 private:
  void judge_batch();
  /// Takes out the numbers that the system's table refuses.
  void drop_misfits();

  const TranslationSource& source_;
  System to_;
  std::string current_;
  std::vector<WrittenKey> keys_;
  std::vector<std::string> implied_;
  std::map<std::string, std::string> losses_;
  std::vector<std::string> open_;
};

/// A fact that a function of its own writes.
struct FactWriter {
  std::string_view fact;
  void (*write)(TargetWriter& out);
};

/// Writes the fact by its row; false: it has none.
bool write_by_row(TargetWriter& out,
                  std::string_view fact,
                  std::span<const FactWriter> rows);

/// The config in the system's own form.
std::string text_of_target(System to, const std::vector<WrittenKey>& keys);

/// "linear", "cosine" or "constant", by whatever name; empty: another one.
std::string plain_schedule(const std::string& schedule);

/// The precision of a system without triax's "bf16_autocast".
std::string product_precision(const TargetWriter& out);
/// A run's length to stand in: its warm-up and more.
int64_t usual_steps(const TargetWriter& out);
/// Tokens of a sequence to stand in, which the layout splits.
int64_t usual_sequence(const TargetWriter& out);

/// What a system calls the sizes of a model.
struct ModelKeys {
  std::string layers;
  std::string heads;
  std::string kv_heads;
  std::string hidden;
  std::string ffn;
  std::string vocabulary;
};

/// Sizes that fit the layout stand in for those that nobody says.
void stand_in_model(TargetWriter& out, const ModelKeys& keys);

/// Adam with or without decoupled weight decay.
bool is_adam(const std::string& optimizer);

// What each system makes of a fact, and what it needs beside them all.
void write_deepspeed(TargetWriter& out, const NamedFact& fact);
void finish_deepspeed(TargetWriter& out);
void write_megatron(TargetWriter& out, const NamedFact& fact);
void finish_megatron(TargetWriter& out);
void write_torchtitan(TargetWriter& out, const NamedFact& fact);
void finish_torchtitan(TargetWriter& out);
void write_nanotron(TargetWriter& out, const NamedFact& fact);
void finish_nanotron(TargetWriter& out);
void write_triax(TargetWriter& out, const NamedFact& fact);
void finish_triax(TargetWriter& out);

}  // namespace triax
