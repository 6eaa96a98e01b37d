// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/refillable_storage.h"

#include <c10/core/CPUAllocator.h>

#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

c10::DataPtr no_memory() {
  return {nullptr, c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

RefillableStorage::RefillableStorage(int64_t nbytes, const std::string& why)
    : storage_(c10::Storage::use_byte_size_t(),
               static_cast<size_t>(nbytes),
               no_memory(),
               c10::GetCPUAllocator(),
               /*resizable=*/false) {
  free(why);
}

RefillableStorage::RefillableStorage(c10::Storage filled)
    : storage_(std::move(filled)), is_filled_(true) {}

at::Tensor RefillableStorage::tensor(at::ScalarType dtype,
                                     int64_t start,
                                     at::IntArrayRef sizes) const {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage_),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_storage_offset(start);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void RefillableStorage::fill() {
  if (!is_filled_) {
    fill(c10::GetCPUAllocator()->allocate(static_cast<size_t>(nbytes())));
  }
}

void RefillableStorage::fill(c10::DataPtr memory) {
  impl().clear_data_ptr_access_error_msg_();
  impl().set_data_ptr_noswap(std::move(memory));
  is_filled_ = true;
}

c10::DataPtr RefillableStorage::take(const std::string& why) {
  c10::DataPtr memory =
      std::exchange(impl()._mutable_data_ptr_no_checks(), no_memory());
  impl().release_data_and_set_meta_custom_data_ptr_error_msg_(why);
  is_filled_ = false;
  return memory;
}

int64_t RefillableStorage::nbytes() const {
  return static_cast<int64_t>(impl().nbytes());
}

std::byte* RefillableStorage::data() const {
  TRIAX_CHECK(is_filled_, "a storage without memory");
  return static_cast<std::byte*>(impl().mutable_data());
}

}  // namespace triax
