// SPDX-License-Identifier: Apache-2.0
#include "triax/model/parameter_slot.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "triax/base/error.h"

namespace triax {

std::shared_ptr<ParameterSlot> make_slot(std::string name,
                                         std::vector<int64_t> shape,
                                         ParameterRole role) {
  auto slot = std::make_shared<ParameterSlot>();
  slot->layout.name = std::move(name);
  slot->layout.shape = std::move(shape);
  slot->layout.role = role;
  return slot;
}

void ParameterModule::allocate_own_slots(at::ScalarType dtype) {
  for (ParameterSlot* slot : own_slots()) {
    TRIAX_CHECK(!slot->tensor.defined(), slot->layout.name, " has storage");
    const std::string& path = slot->layout.name;
    const std::string name = path.substr(path.rfind('.') + 1);
    slot->tensor =
        register_parameter(name, at::zeros(slot->layout.shape, dtype));
  }
}

std::vector<ParameterSlot*> collect_slots(torch::nn::Module& root) {
  std::vector<ParameterSlot*> slots;
  root.apply([&](torch::nn::Module& module) {
    if (auto* owner = dynamic_cast<ParameterModule*>(&module)) {
      const auto own = owner->own_slots();
      slots.insert(slots.end(), own.begin(), own.end());
    }
  });
  return slots;
}

void name_slots(torch::nn::Module& root) {
  const std::function<void(const std::string&, torch::nn::Module&)> prefix =
      [](const std::string& path, torch::nn::Module& module) {
        auto* owner = dynamic_cast<ParameterModule*>(&module);
        if (owner == nullptr || path.empty()) {
          return;
        }
        for (ParameterSlot* slot : owner->own_slots()) {
          slot->layout.name = path + "." + slot->layout.name;
        }
      };
  root.apply(prefix);
}

}  // namespace triax
