// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/cast_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "triax/base/error.h"
#include "triax/memory/refillable_storage.h"
#include "triax/memory/storage_watch.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

constexpr const char* kGivenBack =
    "the memory of a weight's copy in another type was given back and is there "
    "in operations alone";
constexpr const char* kExpired =
    "a weight's copy in another type is from before the last step: backward "
    "must come before step(), and autocast must be left, or its cache cleared, "
    "after each forward";
constexpr const char* kChanged =
    "a weight was changed after a copy of it in another type was made, and the "
    "copy's memory was given back since: make the copy anew";

struct Copy {
  RefillableStorage storage;
  at::ScalarType dtype;
  at::Tensor source;
  int key;
  c10::VariableVersion version;  // the copy's own, counting on
  uint32_t version_made;
  int64_t source_version;

  /// It is no longer what a cast would give.
  bool is_changed() const { return version.current_version() != version_made; }
};

}  // namespace

struct CastCopies::State {
  explicit State(std::function<void(int key)> the_gather)
      : gather(std::move(the_gather)),
        watch([this](std::span<const int> ids) { before_use(ids); },
              [](std::span<const int>) {}) {}

  void note(const at::Tensor& source, int key, const at::Tensor& copy) {
    const std::lock_guard lock(mutex);
    forget_unused();
    give_back_others({&key, 1});
    const int id = next_id++;
    watch.add(copy, id);
    grow(static_cast<int64_t>(copy.storage().nbytes()));
    copies.emplace(id,
                   Copy{RefillableStorage(copy.storage()),
                        copy.scalar_type(),
                        source,
                        key,
                        copy.unsafeGetTensorImpl()->version_counter(),
                        static_cast<uint32_t>(copy._version()),
                        source._version()});
  }

  void expire() {
    const std::lock_guard lock(mutex);
    forget_unused();
    for (auto& [id, copy] : copies) {
      give_back(copy, kExpired);
      watch.remove(copy.storage.storage());
    }
    copies.clear();
  }

  std::mutex mutex;
  const std::function<void(int key)> gather;
  std::map<int, Copy> copies;
  int next_id = 0;
  int64_t bytes = 0;
  int64_t most_bytes = 0;
  StorageWatch watch;  // last: ends first

 private:
  void before_use(std::span<const int> ids) {
    const std::lock_guard lock(mutex);
    std::vector<int> keys;
    std::vector<Copy*> missed;
    for (const int id : ids) {
      Copy& copy = copies.at(id);
      keys.push_back(copy.key);
      if (!copy.storage.is_filled()) {
        missed.push_back(&copy);
      }
    }
    if (!missed.empty()) {
      give_back_others(keys);
    }
    for (Copy* copy : missed) {
      refill(*copy);
    }
  }

  void refill(Copy& copy) {
    if (copy.source._version() != copy.source_version) {
      throw Error(kChanged);
    }
    gather(copy.key);
    {
      const MemoryScope memory(MemoryCategory::kParameters);
      copy.storage.fill();
    }
    grow(copy.storage.nbytes());
    const at::NoGradGuard no_grad;
    copy.storage.tensor(copy.dtype, 0, copy.source.sizes())
        .copy_(copy.source.detach());
  }

  void give_back(Copy& copy, const char* why) {
    if (copy.storage.is_filled()) {
      grow(-copy.storage.nbytes());
    }
    copy.storage.free(why);
  }

  void give_back_others(std::span<const int> keys) {
    for (auto& [id, copy] : copies) {
      if (copy.storage.is_filled() && !copy.is_changed() &&
          std::find(keys.begin(), keys.end(), copy.key) == keys.end()) {
        give_back(copy, kGivenBack);
      }
    }
  }

  void grow(int64_t nbytes) {
    bytes += nbytes;
    most_bytes = std::max(most_bytes, bytes);
  }

  /// Those that no tensor holds any more.
  void forget_unused() {
    for (auto entry = copies.begin(); entry != copies.end();) {
      Copy& copy = entry->second;
      if (copy.storage.is_used()) {
        ++entry;
        continue;
      }
      give_back(copy, kGivenBack);
      watch.remove(copy.storage.storage());
      entry = copies.erase(entry);
    }
  }
};

namespace {

using State = CastCopies::State;

/// The tensors of all CastCopies, and LibTorch's call for their copies.
class Sources {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (num_states_++ == 0) {
      callback_ = at::addGlobalCallback(
          at::RecordFunctionCallback(&before_operation, &after_operation)
              .needsInputs(true)
              .needsOutputs(true)
              .scopes({at::RecordScope::FUNCTION}));
    }
  }

  void end(const State& state) {
    const std::lock_guard lock(mutex_);
    std::erase_if(sources_, [&](const auto& entry) {
      return entry.second.state.get() == &state;
    });
    if (--num_states_ == 0) {
      at::removeCallback(callback_);
    }
  }

  void add(const at::Tensor& tensor,
           int key,
           const std::shared_ptr<State>& state) {
    const std::lock_guard lock(mutex_);
    sources_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                              Source{tensor, key, state});
  }

 private:
  struct Source {
    at::Tensor tensor;
    int key = 0;
    std::shared_ptr<State> state;
  };

  struct Context : at::ObserverContext {
    Source source;
  };

  static std::unique_ptr<at::ObserverContext> before_operation(
      const at::RecordFunction& operation);
  static void after_operation(const at::RecordFunction& operation,
                              at::ObserverContext* context);

  std::shared_mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Source> sources_;
  int num_states_ = 0;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};

Sources& sources() {
  // Never destroyed: threads of LibTorch may outlive statics.
  static auto* const sources = new Sources();
  return *sources;
}

std::unique_ptr<at::ObserverContext> Sources::before_operation(
    const at::RecordFunction& operation) {
  if (std::strcmp(operation.name(), "aten::_to_copy") != 0 ||
      operation.inputs().empty() || !operation.inputs()[0].isTensor()) {
    return nullptr;
  }
  Sources& all = sources();
  const std::shared_lock lock(all.mutex_);
  const auto found =
      all.sources_.find(operation.inputs()[0].unsafeToTensorImpl());
  if (found == all.sources_.end()) {
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  context->source = found->second;
  return context;
}

void Sources::after_operation(const at::RecordFunction& operation,
                              at::ObserverContext* context) {
  if (context == nullptr || operation.outputs().size() != 1 ||
      !operation.outputs()[0].isTensor()) {
    return;
  }
  const Source& source = static_cast<Context*>(context)->source;
  const at::Tensor& copy = operation.outputs()[0].toTensor();
  const bool is_whole = copy.defined() && copy.is_cpu() &&
                        copy.is_contiguous() && copy.storage_offset() == 0 &&
                        copy.storage().nbytes() == copy.nbytes();
  const bool is_narrower = c10::elementSize(copy.scalar_type()) <
                           c10::elementSize(source.tensor.scalar_type());
  if (is_whole && is_narrower && !copy.is_inference()) {
    source.state->note(source.tensor, source.key, copy);
  }
}

}  // namespace

CastCopies::CastCopies(std::function<void(int key)> gather)
    : state_(std::make_shared<State>(std::move(gather))) {
  sources().begin();
}

CastCopies::~CastCopies() {
  sources().end(*state_);
}

void CastCopies::add(const at::Tensor& tensor, int key) {
  sources().add(tensor, key, state_);
}

void CastCopies::expire() {
  state_->expire();
}

void CastCopies::rethrow_failure() {
  if (const std::exception_ptr failure = state_->watch.take_failure()) {
    std::rethrow_exception(failure);
  }
}

int64_t CastCopies::most_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->most_bytes;
}

}  // namespace triax
