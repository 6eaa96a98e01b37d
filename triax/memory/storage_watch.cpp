// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/storage_watch.h"

#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "triax/base/error.h"

namespace triax {

struct StorageWatch::State {
  void call(const Call& what, std::span<const int> keys) noexcept {
    try {
      what(keys);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) {
        failure = std::current_exception();
      }
    }
  }

  Call before;
  Call after;
  int64_t number = 0;  // of all watches
  std::mutex mutex;
  std::exception_ptr failure;
};

namespace {

using State = StorageWatch::State;

/// What one operation uses of one watch.
struct Use {
  std::shared_ptr<State> state;
  c10::SmallVector<int, 4> keys;
};

using Uses = c10::SmallVector<Use, 1>;

thread_local constinit bool is_calling = false;

template <class Member>
void tell(Uses& uses, Member member) {
  is_calling = true;
  for (Use& use : uses) {
    use.state->call((*use.state).*member, {use.keys.data(), use.keys.size()});
  }
  is_calling = false;
}

/// The storages of all watches, and LibTorch's call for them.
class Registry {
 public:
  void begin(State& state) {
    const std::lock_guard lock(mutex_);
    state.number = next_number_++;
    if (num_watches_++ == 0) {
      callback_ = at::addGlobalCallback(
          at::RecordFunctionCallback(&before_operation, &after_operation)
              .needsInputs(true)
              .scopes({at::RecordScope::FUNCTION}));
    }
  }

  void end(const State& state) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) {
      return entry.second.state.get() == &state;
    });
    if (--num_watches_ == 0) {
      at::removeCallback(callback_);
    }
  }

  void add(const c10::StorageImpl* storage,
           const std::shared_ptr<State>& state,
           int key) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(storage, state, key);
    TRIAX_CHECK(
        is_new || (entry->second.state == state && entry->second.key == key),
        "a storage is watched twice");
  }

  void remove(const c10::StorageImpl* storage) {
    const std::lock_guard lock(mutex_);
    entries_.erase(storage);
  }

  bool contains(const c10::StorageImpl* storage) const {
    const std::shared_lock lock(mutex_);
    return entries_.contains(storage);
  }

  void find(const at::TensorImpl& tensor, Uses& uses) const {
    if (!tensor.has_storage()) {
      return;
    }
    const std::shared_lock lock(mutex_);
    const auto found =
        entries_.find(tensor.unsafe_storage().unsafeGetStorageImpl());
    if (found == entries_.end()) {
      return;
    }
    const auto& [state, key] = found->second;
    auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& other) {
      return other.state == state;
    });
    if (use == uses.end()) {
      const auto place =
          std::find_if(uses.begin(), uses.end(), [&](const Use& other) {
            return other.state->number < state->number;
          });
      use = uses.insert(place, Use{state, {}});
    }
    if (std::find(use->keys.begin(), use->keys.end(), key) == use->keys.end()) {
      use->keys.push_back(key);
    }
  }

 private:
  struct Entry {
    Entry(std::shared_ptr<State> the_state, int the_key)
        : state(std::move(the_state)), key(the_key) {}
    std::shared_ptr<State> state;
    int key;
  };

  struct Context : at::ObserverContext {
    Uses uses;
  };

  static std::unique_ptr<at::ObserverContext> before_operation(
      const at::RecordFunction& operation);
  static void after_operation(const at::RecordFunction&,
                              at::ObserverContext* context) {
    if (context != nullptr) {
      tell(static_cast<Context*>(context)->uses, &State::after);
    }
  }

  mutable std::shared_mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Entry> entries_;
  int num_watches_ = 0;
  int64_t next_number_ = 0;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};

Registry& registry() {
  // Never destroyed: threads of LibTorch may outlive statics.
  static auto* const registry = new Registry();
  return *registry;
}

void collect(const c10::IValue& value, Uses& uses) {
  if (value.isTensor()) {
    registry().find(*value.unsafeToTensorImpl(), uses);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      collect(element, uses);
    }
  }
}

std::unique_ptr<at::ObserverContext> Registry::before_operation(
    const at::RecordFunction& operation) {
  if (is_calling) {
    return nullptr;
  }
  Uses uses;
  for (const c10::IValue& input : operation.inputs()) {
    collect(input, uses);
  }
  if (uses.empty()) {
    return nullptr;
  }
  tell(uses, &State::before);
  auto context = std::make_unique<Context>();
  context->uses = std::move(uses);
  return context;
}

}  // namespace

StorageWatch::StorageWatch(Call before, Call after)
    : state_(std::make_shared<State>()) {
  state_->before = std::move(before);
  state_->after = std::move(after);
  registry().begin(*state_);
}

StorageWatch::~StorageWatch() {
  registry().end(*state_);
}

void StorageWatch::add(const at::Tensor& tensor, int key) {
  TRIAX_CHECK(tensor.has_storage(), "a tensor without a storage");
  registry().add(tensor.storage().unsafeGetStorageImpl(), state_, key);
}

bool StorageWatch::is_watched(const at::Tensor& tensor) {
  return registry().contains(tensor.storage().unsafeGetStorageImpl());
}

void StorageWatch::remove(const c10::Storage& storage) {
  registry().remove(storage.unsafeGetStorageImpl());
}

std::exception_ptr StorageWatch::take_failure() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->failure, nullptr);
}

}  // namespace triax
