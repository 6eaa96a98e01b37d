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
#include "triax/foreign/system.h"
#include "triax/foreign/translate.h"

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
  return 0;
}
