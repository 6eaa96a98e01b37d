// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "triax/base/json.h"
#include "triax/base/units.h"
#include "triax/train/verify.h"

namespace triax {
namespace {

constexpr size_t kMostDrifted = 5;
constexpr size_t kMostUnproved = 3;

std::string row(const char* what, const Distance& distance) {
  return fmt::format("{:<14} {:>12.3e} {:>12.3e}   {:<9} {}\n",
                     what,
                     distance.distance,
                     distance.bound,
                     distance.is_within() ? "equal" : "DIFFERENT",
                     distance.what == what ? "" : distance.what);
}

std::string index_text(const std::vector<int64_t>& index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string difference_text(const FirstDifference& first) {
  return fmt::format(
      "first difference: {} at {}: {:.9g}, {} {:.9g}; distance {:.3e} of at "
      "most {:.3e}\n",
      first.name,
      index_text(first.index),
      first.layout_value,
      first.reference,
      first.one_rank_value,
      first.distance,
      first.bound);
}

std::string unproved_text(const VerifyReport& report) {
  const std::vector<std::string>& names = report.unproved;
  const size_t shown = std::min(names.size(), kMostUnproved);
  return fmt::format(
      "not proved: {} of {} parameters, whose rounding may be half as "
      "large as their gradient or update ({}{}); fp64 proves them\n",
      names.size(),
      report.num_parameters,
      fmt::join(names.begin(), names.begin() + int64_t(shown), ", "),
      names.size() > shown ? ", …" : "");
}

Json to_json(const Distance& distance) {
  return {{"distance", distance.distance},
          {"bound", distance.bound},
          {"where", distance.what}};
}

}  // namespace

std::string to_text(const VerifyReport& report) {
  std::string text = fmt::format("{} against one rank, {}, {}\n\n",
                                 report.plan,
                                 report.precision,
                                 counted(report.num_steps, "step"));
  text += fmt::format("{:<6} {:>16} {:>16} {:>14} {:>14}\n",
                      "step",
                      "loss",
                      "on one rank",
                      "norm",
                      "on one rank");
  for (size_t i = 0; i < report.losses.size(); ++i) {
    text += fmt::format("{:<6} {:>16.10f} {:>16.10f} {:>14.8f} {:>14.8f}\n",
                        i + 1,
                        report.losses[i],
                        report.one_rank_losses[i],
                        report.norms[i],
                        report.one_rank_norms[i]);
  }
  text += fmt::format("\n{:<14} {:>12} {:>12}   {:<9} {}\n",
                      "worst of",
                      "distance",
                      "bound",
                      "",
                      "where");
  text += row("loss", report.loss) + row("gradient norm", report.norm) +
          row("gradients", report.gradients) + row("weights", report.weights);
  if (report.first) {
    text += "\n" + difference_text(*report.first);
  }
  for (size_t i = 0; i < report.drifted.size() && i < kMostDrifted; ++i) {
    text += "copies differ: " + report.drifted[i] + "\n";
  }
  if (report.drifted.size() > kMostDrifted) {
    text += fmt::format("… and {} more copies\n",
                        report.drifted.size() - kMostDrifted);
  }
  if (!report.unproved.empty()) {
    text += unproved_text(report);
  }
  if (report.num_weak_later > 0) {
    text += fmt::format(
        "after the first update rounding may be half as large as the gradients "
        "of {} of {} parameters; what only shows there is not proved\n",
        report.num_weak_later,
        report.num_parameters);
  }
  if (!report.dead.empty()) {
    text += "nothing is proved: " + report.dead + "\n";
  }
  return text + "\n" + (report.is_equal() ? "equal" : "different") + "\n";
}

std::string to_json_text(const VerifyReport& report) {
  Json json = {{"plan", report.plan},
               {"precision", report.precision},
               {"steps", report.num_steps},
               {"loss", to_json(report.loss)},
               {"grad_norm", to_json(report.norm)},
               {"gradients", to_json(report.gradients)},
               {"weights", to_json(report.weights)},
               {"losses", report.losses},
               {"one_rank_losses", report.one_rank_losses},
               {"drifted", report.drifted},
               {"unproved", report.unproved},
               {"weak_after_update", report.num_weak_later},
               {"verdict", report.is_equal() ? "equal" : "different"}};
  if (!report.dead.empty()) {
    json["dead"] = report.dead;
  }
  if (report.first) {
    json["first_difference"] = {{"name", report.first->name},
                                {"index", report.first->index},
                                {"layout", report.first->layout_value},
                                {"one_rank", report.first->one_rank_value},
                                {"distance", report.first->distance},
                                {"bound", report.first->bound}};
  }
  return dump_json(json);
}

}  // namespace triax
