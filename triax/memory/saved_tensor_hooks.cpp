// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/saved_tensor_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>

#include "triax/base/error.h"

namespace triax {
namespace {

thread_local constinit SavedTensorKeeper* this_keeper = nullptr;
std::atomic<bool> is_installed = false;

/// Of one saved tensor. A graph with hooks no longer looks whether a saved
/// tensor was changed, so this does.
class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(SavedTensorKeeper& keeper) : keeper_(keeper) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    counter_ = tensor.unsafeGetTensorImpl()->version_counter();
    version_ = counter_.current_version();
    kept_ = keeper_.keep(tensor);
    if (!kept_) {
      // An alias without history: a graph that holds its own output never dies.
      itself_ = tensor.tensor_data();
    }
  }

  at::Tensor call_unpack_hook() override {
    if (counter_.current_version() != version_) {
      throw Error(
          "a tensor that was saved for backward was changed in place (it is at "
          "version ",
          counter_.current_version(),
          ", saved was version ",
          version_,
          "): change a clone of it, or change it before it is saved");
    }
    return kept_ ? kept_->unpack() : itself_;
  }

 private:
  SavedTensorKeeper& keeper_;  // of the pack hook alone
  c10::VariableVersion counter_;
  uint32_t version_ = 0;
  std::unique_ptr<SavedTensor> kept_;
  at::Tensor itself_;
};

class HookedEngine final : public torch::autograd::Engine {
 public:
  ~HookedEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override {
    return this_keeper == nullptr ? nullptr
                                  : std::make_unique<Hooks>(*this_keeper);
  }
};

torch::autograd::Engine& hooked_engine() {
  // Never destroyed, as LibTorch's own.
  static auto* const engine = new HookedEngine();
  return *engine;
}

}  // namespace

void install_saved_tensor_hooks() {
  torch::autograd::set_default_engine_stub(hooked_engine);
  is_installed = true;
}

bool has_saved_tensor_hooks() {
  return is_installed;
}

SavedTensorScope::SavedTensorScope(SavedTensorKeeper& keeper)
    : outer_(this_keeper) {
  TRIAX_CHECK(has_saved_tensor_hooks(), "no hooks are installed");
  this_keeper = &keeper;
}

SavedTensorScope::~SavedTensorScope() {
  this_keeper = outer_;
}

}  // namespace triax
