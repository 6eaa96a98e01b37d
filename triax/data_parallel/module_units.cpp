// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/module_units.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "triax/base/error.h"
#include "triax/config/name_pattern.h"

namespace triax {
namespace {

constexpr size_t kMaxPathsShown = 12;

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

class UnitWalk {
 public:
  explicit UnitWalk(const std::vector<std::string>& patterns)
      : patterns_(patterns), has_matched_(patterns.size()) {}

  std::vector<ModuleUnit> walk(const torch::nn::Module& module) {
    units_.push_back({kRootUnit, {}});
    visit(module, "", 0, std::vector<bool>(patterns_.size()));
    check_patterns();
    std::rotate(units_.begin(), units_.begin() + 1, units_.end());
    std::erase_if(
        units_, [](const ModuleUnit& unit) { return unit.parameters.empty(); });
    return std::move(units_);
  }

 private:
  /// `is_spent`: patterns that made a unit of a module above.
  void visit(const torch::nn::Module& module,
             const std::string& path,
             size_t unit,
             std::vector<bool> is_spent) {
    paths_.push_back(path);
    bool is_unit = false;
    for (size_t i = 0; i < patterns_.size() && !path.empty(); ++i) {
      if (!is_spent[i] && matches_pattern(patterns_[i], path)) {
        is_spent[i] = has_matched_[i] = is_unit = true;
      }
    }
    if (is_unit) {
      unit = units_.size();
      units_.push_back({path, {}});
    }
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      if (item.value().defined() &&
          seen_.insert(item.value().unsafeGetTensorImpl()).second) {
        units_[unit].parameters.push_back(
            {join_path(path, item.key()), item.value()});
      }
    }
    for (const auto& child : module.named_children()) {
      visit(*child.value(), join_path(path, child.key()), unit, is_spent);
    }
  }

  void check_patterns() const {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (has_matched_[i]) {
        continue;
      }
      std::string shown;
      for (size_t p = 1; p < std::min(paths_.size(), kMaxPathsShown); ++p) {
        shown += (p > 1 ? ", " : "") + paths_[p];
      }
      throw Error("units: no submodule's path fits \"",
                  patterns_[i],
                  "\"; the paths are ",
                  shown.empty() ? "none" : shown,
                  paths_.size() > kMaxPathsShown ? ", …" : "");
    }
  }

  const std::vector<std::string>& patterns_;
  std::vector<bool> has_matched_;
  std::vector<ModuleUnit> units_;
  std::vector<std::string> paths_;
  std::set<const c10::TensorImpl*> seen_;
};

}  // namespace

std::vector<ModuleUnit> units_of_module(
    const torch::nn::Module& module, const std::vector<std::string>& patterns) {
  return UnitWalk(patterns).walk(module);
}

}  // namespace triax
