// SPDX-License-Identifier: Apache-2.0
// One libFuzzer target for each reader of a foreign config: TRIAX_FUZZ_SYSTEM
// names it. What is read is also judged, fixed, reported and translated.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "triax/check/apply_edits.h"
#include "triax/check/foreign_check.h"
#include "triax/check/report_formats.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/system.h"
#include "triax/foreign/translate.h"

namespace {

// The other half of a pair.
const triax::ForeignConfig& arguments() {
  static const triax::ForeignConfig config =
      triax::read_megatron_words({"--micro-batch-size",
                                  "4",
                                  "--global-batch-size",
                                  "64",
                                  "--bf16",
                                  "--tensor-model-parallel-size",
                                  "2",
                                  "--deepspeed",
                                  "--zero-stage",
                                  "1"});
  return config;
}

const triax::ForeignConfig& json() {
  static const triax::ForeignConfig config = triax::read_deepspeed(
      "train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 4\n"
      "gradient_accumulation_steps: 2\nbf16: {enabled: true}\n"
      "zero_optimization: {stage: 2, reduce_bucket_size: 5e8}",
      "ds.json");
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace triax;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const SystemEntry* entry =
      find_system(parse_system(TRIAX_FUZZ_SYSTEM).value());
  if (entry == nullptr) {
    std::abort();
  }
  entry->likeness("fuzz", text);
  const ForeignConfig config = entry->read(text, "fuzz");
  ForeignContext context;
  context.world = 16;
  context.ranks_on_host = 8;
  context.link_bytes_per_second = 50e9;
  context.device_bytes = int64_t{80} << 30;
  const ForeignReport report = check_foreign(config, context);
  to_sarif(report.problems, "0");
  to_github(report.problems);
  const EditedText edited = apply_edits(text, "fuzz", report.problems);
  check_foreign(entry->read(edited.text, "fuzz"), context);
  for (const System to : {System::kTriax,
                          System::kDeepSpeed,
                          System::kMegatron,
                          System::kTorchTitan,
                          System::kNanotron}) {
    translate(translation_source(config, {.world = 16}), to);
  }
  translate(
      translation_source(config, {.world = 16}), System::kNanotron, "0.4");
  if (entry->system == System::kDeepSpeed) {
    context.version = "0.14.5";
    check_pair(arguments(), config, context);
  } else if (entry->system == System::kMegatron) {
    check_pair(config, json(), context);
  }
  return 0;
}
