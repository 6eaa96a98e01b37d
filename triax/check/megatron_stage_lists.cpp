// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "triax/check/findings.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/megatron_rules.h"

namespace triax {
namespace {

using Number = std::optional<int64_t>;

constexpr int64_t kMaxLayers = 1 << 20;
constexpr size_t kMaxLayout = 1 << 16;

// One by one, "(ab)*3" as ababab; empty: more than any model has.
std::string unroll(const std::string& layout) {
  std::string text;
  for (const char c : layout) {
    if (c != ',') {
      text += c;
    }
  }
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    std::string part(1, text[at]);
    size_t next = at + 1;
    if (text[at] == '(') {
      const size_t end = text.find(')', at);
      if (end == std::string::npos) {
        return text;
      }
      part = text.substr(at + 1, end - at - 1);
      next = end + 1;
    }
    int64_t times = 1;
    if (next + 1 < text.size() && text[next] == '*' && text[next + 1] >= '0' &&
        text[next + 1] <= '9') {
      times = 0;
      ++next;
      while (next < text.size() && text[next] >= '0' && text[next] <= '9') {
        times = std::min<int64_t>(times * 10 + (text[next] - '0'), kMaxLayers);
        ++next;
      }
    }
    if (result.size() + part.size() * static_cast<size_t>(times) > kMaxLayout) {
      return "";
    }
    for (int64_t i = 0; i < times; ++i) {
      result += part;
    }
    at = next;
  }
  return result;
}

// The chunks go round the ranks.
std::vector<int64_t> layers_of_ranks(const std::string& layout, int64_t pp) {
  std::vector<int64_t> layers(static_cast<size_t>(pp));
  size_t chunk = 0;
  for (const char c : layout) {
    chunk += c == '|' ? 1 : 0;
    layers[chunk % layers.size()] += c == 't' ? 1 : 0;
  }
  return layers;
}

// Stages that a text lists one by one.
class ListJudge {
 public:
  ListJudge(ForeignFindings& findings, const MegatronArguments& args)
      : findings_(findings), args_(args) {}

  // Chunks of a rank; nullopt: not known, or they do not divide.
  Number judge_layout(int64_t pp) {
    const char* key = "pipeline-model-parallel-layout";
    const std::optional<std::string> given = args_.text(key);
    const std::string layout = given ? unroll(*given) : "";
    if (layout.empty()) {
      return std::nullopt;
    }
    const size_t bad = layout.find_first_not_of("EtLm|");
    if (bad != std::string::npos) {
      error("stages-fit",
            key,
            fmt::format("it has a {} where only E, t, m, L and | stand",
                        in_quotes(layout.substr(bad, 1))),
            "write stages of E, t, m and L, with | between them");
      return std::nullopt;
    }
    const auto count = [&layout](char c) {
      return std::count(layout.begin(), layout.end(), c);
    };
    const int64_t stages = count('|') + 1;
    if (stages % pp != 0) {
      error("stages-fit",
            key,
            fmt::format(
                "it has {} stages, and pp {} does not divide them", stages, pp),
            fmt::format("use a pp of {}", one_of(divisors(stages))));
    }
    check_layout_layers(key, layout, count('t'), args_.whole("num-layers"));
    if (stages % pp == 0) {
      note_slowest_stage(findings_, key, layers_of_ranks(layout, pp));
    }
    return stages % pp == 0 ? Number(stages / pp) : std::nullopt;
  }

  void judge_pattern() {
    for (const char* other : {"num-layers-per-virtual-pipeline-stage",
                              "num-virtual-stages-per-pipeline-rank",
                              "pipeline-model-parallel-layout",
                              "account-for-embedding-in-pipeline-split",
                              "account-for-loss-in-pipeline-split"}) {
      if (args_.is_set(other)) {
        error("stages-fit",
              other,
              "the stages are the | in --hybrid-layer-pattern",
              "remove it");
      }
    }
    const std::optional<std::string> pattern =
        args_.text("hybrid-layer-pattern");
    const Number pp = args_.whole("pipeline-model-parallel-size");
    if (!pattern || !pp || *pp < 1) {
      return;
    }
    const std::string stages = pattern->substr(0, pattern->find('/'));
    const int64_t count = std::count(stages.begin(), stages.end(), '|') + 1;
    if (count == 1) {
      return;
    }
    for (const char* other : {"decoder-first-pipeline-num-layers",
                              "decoder-last-pipeline-num-layers"}) {
      if (args_.is_set(other)) {
        error("stages-fit",
              other,
              "the stages are the | in --hybrid-layer-pattern",
              "remove it");
      }
    }
    if (count % *pp != 0) {
      error(
          "stages-fit",
          "hybrid-layer-pattern",
          fmt::format(
              "it has {} segments, and pp {} does not divide them", count, *pp),
          fmt::format("use a pp of {}", one_of(divisors(count))));
    }
  }

 private:
  void check_layout_layers(const char* key,
                           const std::string& layout,
                           int64_t blocks,
                           const Number& layers) {
    std::string flat = layout;
    std::erase(flat, '|');
    const auto count = [&flat](char c) {
      return std::count(flat.begin(), flat.end(), c);
    };
    if (flat.empty() || flat.front() != 'E' || flat.back() != 'L' ||
        count('E') != 1 || count('L') != 1) {
      error("stages-fit",
            key,
            "it must begin with the one embedding (E) and end with the one "
            "loss (L)",
            "begin with E and end with L");
      return;
    }
    if (layers && blocks != *layers) {
      error("stages-fit",
            key,
            fmt::format("it has {} layers (t), and --num-layers says {}",
                        blocks,
                        *layers),
            fmt::format("use --num-layers {}", blocks));
    }
    const Number ahead = args_.whole("mtp-num-layers");
    const int64_t expected = ahead.value_or(0);
    if ((ahead || args_.is_off("mtp-num-layers")) && count('m') != expected) {
      error("stages-fit",
            key,
            fmt::format("it has {} layers of further tokens (m), and "
                        "--mtp-num-layers says {}",
                        count('m'),
                        expected),
            fmt::format("use --mtp-num-layers {}", count('m')));
    }
    for (const char* other : {"decoder-first-pipeline-num-layers",
                              "decoder-last-pipeline-num-layers",
                              "account-for-embedding-in-pipeline-split",
                              "account-for-loss-in-pipeline-split"}) {
      if (args_.is_set(other)) {
        error("stages-fit",
              other,
              "--pipeline-model-parallel-layout says all stages already",
              "remove one of the two");
      }
    }
  }

  void error(const std::string& rule,
             const std::string& key,
             const std::string& message,
             const std::string& fix) {
    findings_.error(rule, key, message, fix);
  }

  ForeignFindings& findings_;
  const MegatronArguments& args_;
};

}  // namespace

std::optional<int64_t> check_megatron_layout(ForeignFindings& findings,
                                             const MegatronArguments& args,
                                             int64_t pp) {
  return ListJudge(findings, args).judge_layout(pp);
}

void check_megatron_pattern(ForeignFindings& findings,
                            const MegatronArguments& args) {
  ListJudge(findings, args).judge_pattern();
}

}  // namespace triax
