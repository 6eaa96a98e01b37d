// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/stage_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/base/error.h"
#include "triax/base/units.h"

namespace triax {

std::string_view kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kParameters:
      return "parameters";
    case MemoryKind::kGathered:
      return "gathered";
    case MemoryKind::kGradients:
      return "gradients";
    case MemoryKind::kBuckets:
      return "buckets";
    case MemoryKind::kOptimizer:
      return "optimizer";
    case MemoryKind::kWindows:
      return "windows";
    case MemoryKind::kActivations:
      return "activations";
    case MemoryKind::kRecomputed:
      return "recomputed";
    case MemoryKind::kLogits:
      return "logits";
    case MemoryKind::kPipeline:
      return "pipeline";
    case MemoryKind::kWorking:
      return "working";
  }
  return "?";
}

const MemoryLine* StageMemory::line_of(MemoryKind kind) const {
  const auto found = std::ranges::find(lines, kind, &MemoryLine::kind);
  return found == lines.end() ? nullptr : &*found;
}

int64_t StageMemory::bytes_of(MemoryKind kind) const {
  const MemoryLine* line = line_of(kind);
  return line == nullptr ? 0 : line->nbytes;
}

int64_t StageMemory::total_bytes() const {
  int64_t total = 0;
  for (const MemoryLine& line : lines) {
    total += line.nbytes;
  }
  return total;
}

int64_t StageMemory::state_bytes() const {
  int64_t total = 0;
  for (const MemoryLine& line : lines) {
    total += line.is_state() ? line.nbytes : 0;
  }
  return total;
}

int64_t StageMemory::disk_bytes() const {
  int64_t total = 0;
  for (const MemoryLine& line : lines) {
    total += line.disk_bytes;
  }
  return total;
}

const StageMemory& heaviest_stage(const std::vector<StageMemory>& stages) {
  TRIAX_CHECK(!stages.empty(), "no stages");
  return *std::max_element(stages.begin(),
                           stages.end(),
                           [](const StageMemory& a, const StageMemory& b) {
                             return a.total_bytes() < b.total_bytes();
                           });
}

std::string memory_table(const std::vector<StageMemory>& stages) {
  const StageMemory& heaviest = heaviest_stage(stages);
  std::string table = fmt::format("{:<12}", "per rank");
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    table += fmt::format("{:>12}", fmt::format("stage {}", stage));
  }
  table += fmt::format("  how (stage {})\n", &heaviest - stages.data());
  for (size_t i = 0; i < heaviest.lines.size(); ++i) {
    table += fmt::format("{:<12}", kind_name(heaviest.lines[i].kind));
    for (const StageMemory& stage : stages) {
      table += fmt::format("{:>12}", format_bytes(stage.lines[i].nbytes));
    }
    table += fmt::format("  {}\n", heaviest.lines[i].formula);
  }
  table += fmt::format("{:<12}", "total");
  for (const StageMemory& stage : stages) {
    table += fmt::format("{:>12}", format_bytes(stage.total_bytes()));
  }
  table += "\n";
  if (heaviest.disk_bytes() > 0) {
    table += fmt::format("{:<12}", "on disk");
    for (const StageMemory& stage : stages) {
      table += fmt::format("{:>12}", format_bytes(stage.disk_bytes()));
    }
    table += "\n";
  }
  return table;
}

}  // namespace triax
