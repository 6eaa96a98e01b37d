// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/activation_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/memory/io_buffer.h"

namespace triax {

/// One storage's bytes. Held: in the storage that was saved, which nobody may
/// write any more; then in the file; then read into a storage of its own.
struct ActivationFile::Block {
  /// The next of `part`, from its first free byte on.
  Block(std::shared_ptr<ActivationFile> owner,
        Part& its_part,
        const c10::Storage& saved)
      : file(std::move(owner)),
        part(&its_part),
        index(its_part.blocks.size()),
        offset((part - file->parts_.data()) *
                   round_up_to_io(file->options_.microbatch_bytes) +
               its_part.used),
        nbytes(static_cast<int64_t>(saved.nbytes())),
        source(saved.getWeakStorageImpl()),
        storage(saved) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { file->forget(*this); }

  const std::shared_ptr<ActivationFile> file;
  Part* const part;
  const size_t index;  // in its part
  const int64_t offset;
  const int64_t nbytes;
  /// So that no other storage gets the address.
  const c10::weak_intrusive_ptr<c10::StorageImpl> source;
  c10::Storage storage;
  int64_t begin = 0;  // of the bytes in `storage`
  bool is_held = false;
  bool is_written = false;
  bool is_ahead = false;
  std::list<Block*>::iterator held_at;
  int64_t last_write = 0;
  std::vector<IoRequest> reads;
  std::exception_ptr failure;  // of reading it: there will be no more of it
};

/// A saved tensor: its place in a block.
class ActivationFile::View : public SavedTensor {
 public:
  View(std::shared_ptr<Block> block, const at::Tensor& tensor)
      : block_(std::move(block)),
        options_(tensor.options()),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        first_(tensor.storage_offset()) {}

  at::Tensor unpack() override {
    block_->file->load(*block_);
    const at::NoGradGuard no_grad;
    const at::Tensor tensor = at::empty({0}, options_);
    return tensor.set_(block_->storage,
                       first_ + block_->begin / tensor.element_size(),
                       sizes_,
                       strides_);
  }

 private:
  const std::shared_ptr<Block> block_;
  const at::TensorOptions options_;
  const c10::DimVector sizes_;
  const c10::DimVector strides_;
  const int64_t first_;
};

std::shared_ptr<ActivationFile> ActivationFile::make(
    const ActivationFileOptions& options) {
  const MemoryScope memory(MemoryCategory::kActivations);
  return std::shared_ptr<ActivationFile>(new ActivationFile(options));
}

ActivationFile::ActivationFile(const ActivationFileOptions& options)
    : options_(options),
      tracker_(this_rank_memory()),
      file_(options.dir, file_bytes(), {.what = "the activations"}),
      writer_(file_, options.buffer_bytes, options.num_buffers),
      parts_(options.num_microbatches) {}

int64_t ActivationFile::file_bytes() const {
  return options_.num_microbatches * round_up_to_io(options_.microbatch_bytes);
}

void ActivationFile::stay_in_memory(const at::Tensor& tensor) {
  stay_.insert(tensor.storage().unsafeGetStorageImpl());
}

void ActivationFile::begin_forward(int microbatch) {
  TRIAX_CHECK(!is_forward_, "a forward pass inside another");
  is_forward_ = true;
  const auto free = std::find_if(parts_.begin(), parts_.end(), [](Part& part) {
    return part.microbatch < 0;
  });
  if (free == parts_.end()) {
    return;
  }
  // What the last owner wrote may still be on its way.
  writer_.wait(free->last_write);
  open_part_ = &*free;
  open_part_->microbatch = microbatch;
}

void ActivationFile::end_forward() noexcept {
  blocks_.clear();
  leaves_.clear();
  is_forward_ = false;
  if (Part* const part = std::exchange(open_part_, nullptr)) {
    release_if_empty(*part);
  }
}

void ActivationFile::begin_backward(int microbatch) {
  for (Part& part : parts_) {
    if (part.microbatch == microbatch) {
      part.next_read = part.blocks.size();
      read_ahead(part);
    }
  }
}

std::unique_ptr<SavedTensor> ActivationFile::keep(const at::Tensor& tensor) {
  TRIAX_CHECK(is_forward_, "a tensor is saved outside of a forward pass");
  if (!can_move(tensor)) {
    return nullptr;
  }
  std::shared_ptr<Block> block = block_of(tensor.storage());
  if (!block) {
    return nullptr;
  }
  return std::make_unique<View>(std::move(block), tensor);
}

bool ActivationFile::can_move(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() ||
      tensor.is_conj() || tensor.is_neg()) {
    return false;
  }
  const c10::Storage& storage = tensor.storage();
  const c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  // Somebody holds a leaf for its gradient.
  if (tensor.is_leaf() && tensor.requires_grad()) {
    leaves_.insert(impl);
  }
  return static_cast<int64_t>(storage.nbytes()) >= kLeastMovedBytes &&
         !stay_.contains(impl) && !leaves_.contains(impl) &&
         storage.data_ptr().get_deleter() ==
             c10::GetCPUAllocator()->raw_deleter();
}

std::shared_ptr<ActivationFile::Block> ActivationFile::block_of(
    const c10::Storage& storage) {
  std::weak_ptr<Block>& known = blocks_[storage.unsafeGetStorageImpl()];
  if (std::shared_ptr<Block> block = known.lock()) {
    return block;
  }
  const auto nbytes = static_cast<int64_t>(storage.nbytes());
  if (open_part_ == nullptr || open_part_->used + round_up_to_io(nbytes) >
                                   round_up_to_io(options_.microbatch_bytes)) {
    if (bytes_without_room_ == 0) {
      log_warning("the file of activations in ",
                  options_.dir,
                  " has no room for all that is kept for backward; the rest "
                  "stays in memory");
    }
    bytes_without_room_ += nbytes;
    return nullptr;
  }
  auto block =
      std::make_shared<Block>(shared_from_this(), *open_part_, storage);
  open_part_->blocks.push_back(block.get());
  open_part_->used += round_up_to_io(nbytes);
  ++open_part_->num_alive;
  known = block;
  hold(*block);
  return block;
}

void ActivationFile::hold(Block& block) {
  block.held_at = held_.insert(held_.end(), &block);
  block.is_held = true;
  held_bytes_ += block.nbytes;
  while (held_bytes_ > options_.window_bytes && held_.size() > 1) {
    move_oldest();
  }
}

void ActivationFile::move_oldest() {
  Block& block = *held_.front();
  writer_.write(block.offset, block.storage.data(), block.nbytes);
  block.last_write = writer_.last_number();
  block.part->last_write = block.last_write;
  held_.pop_front();
  held_bytes_ -= block.nbytes;
  block.is_held = false;
  block.is_written = true;
  block.storage = c10::Storage();
  tracker_.add_on_disk(block.nbytes);
}

void ActivationFile::load(Block& block) {
  if (block.is_held) {
    return;
  }
  if (block.failure) {
    std::rethrow_exception(block.failure);
  }
  if (!block.storage) {
    start_read(block);
  }
  if (std::exchange(block.is_ahead, false)) {
    ahead_bytes_ -= block.nbytes;
  }
  // The next ones are asked for before this one is waited for.
  block.part->next_read = std::min(block.part->next_read, block.index);
  read_ahead(*block.part);
  try {
    for (IoRequest& request : block.reads) {
      request.wait();
    }
    block.reads.clear();
  } catch (const Error&) {
    // A request tells once, and who unpacks again must not get what is there.
    block.failure = std::current_exception();
    block.reads.clear();
    block.storage = c10::Storage();
    throw;
  }
}

void ActivationFile::read_ahead(Part& part) {
  while (part.next_read > 0) {
    Block* const block = part.blocks[part.next_read - 1];
    if (block != nullptr && !block->is_held && !block->storage) {
      if (ahead_bytes_ > 0 &&
          ahead_bytes_ + block->nbytes > options_.window_bytes) {
        return;
      }
      start_read(*block);
    }
    --part.next_read;
  }
}

void ActivationFile::start_read(Block& block) {
  writer_.wait(block.last_write);
  const MemoryScope memory(MemoryCategory::kActivations);
  const at::Tensor buffer = make_io_buffer(block.nbytes);
  auto* const first = static_cast<std::byte*>(buffer.data_ptr());
  std::vector<IoRequest> reads;
  // In pieces, which are read beside each other.
  const int64_t whole = buffer.numel();
  const int64_t piece = round_up_to_io(options_.buffer_bytes);
  for (int64_t done = 0; done < whole; done += piece) {
    reads.push_back(file_.read(
        block.offset + done, first + done, std::min(piece, whole - done)));
  }
  block.reads = std::move(reads);
  block.storage = buffer.storage();
  block.begin = buffer.storage_offset();
  block.is_ahead = true;
  ahead_bytes_ += block.nbytes;
}

void ActivationFile::forget(Block& block) noexcept {
  block.reads.clear();
  if (block.is_held) {
    held_.erase(block.held_at);
    held_bytes_ -= block.nbytes;
  }
  if (block.is_ahead) {
    ahead_bytes_ -= block.nbytes;
  }
  if (block.is_written) {
    tracker_.add_on_disk(-block.nbytes);
  }
  block.part->blocks[block.index] = nullptr;
  --block.part->num_alive;
  release_if_empty(*block.part);
}

void ActivationFile::release_if_empty(Part& part) noexcept {
  if (part.num_alive == 0 && &part != open_part_) {
    part.microbatch = -1;
    part.used = 0;
    part.blocks.clear();
    part.next_read = 0;
  }
}

ActivationFileScope::ActivationFileScope(ActivationFile& file, int microbatch)
    : file_(file), saved_(file) {
  file_.begin_forward(microbatch);
}

ActivationFileScope::~ActivationFileScope() {
  file_.end_forward();
}

}  // namespace triax
