// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "triax/memory/saved_tensor_hooks.h"
#include "triax/memory/spill_file.h"
#include "triax/memory/staged_writer.h"
#include "triax/memory/tracker.h"

namespace triax {

/// Saved tensors whose storage has fewer bytes stay in memory.
inline constexpr int64_t kLeastMovedBytes = 1024;

struct ActivationFileOptions {
  std::string dir;               // where the file lies
  int64_t microbatch_bytes = 0;  // room for what one microbatch saves
  int num_microbatches = 1;      // with a graph at one time
  /// The newest so many bytes stay in memory, since backward wants them first;
  /// backward reads so many bytes ahead. One storage may always be.
  int64_t window_bytes = 0;
  int64_t buffer_bytes = 0;  // of its StagedWriter
  int num_buffers = 1;
};

/// Keeps what forward passes save for backward in a file, but for the newest:
/// written while the pass goes on, read in reverse order ahead of its use, with
/// the same bits. A storage is written once, however many saved tensors view
/// it. In memory stay, beside the windows and buffers:
///   - parameters (stay_in_memory()) and other leaves that need a gradient;
///   - what is smaller than kLeastMovedBytes;
///   - what LibTorch's allocator does not own, as from_blob()'s data;
///   - what finds no room in the file (bytes_without_room()).
/// A storage is freed when the rest of the program lets go of it; holding one
/// that was saved costs its bytes twice in backward.
///
/// One rank's: its calls, and the backward passes of its graphs, must come one
/// after another. Memory counts as activations. Reads and writes that fail
/// throw SpillFile's Error out of the forward or backward that runs, and again
/// out of whatever else needs those bytes. After a write that failed nothing
/// more is written: make a new file.
class ActivationFile : public SavedTensorKeeper,
                       public std::enable_shared_from_this<ActivationFile> {
 public:
  /// Owned by a shared pointer: graphs hold it. Reserves the file's bytes.
  static std::shared_ptr<ActivationFile> make(
      const ActivationFileOptions& options);

  /// `tensor` must live as long as this; its storage may be emptied and filled
  /// again.
  void stay_in_memory(const at::Tensor& tensor);

  /// In one of these two, keep() is asked about one microbatch's tensors; the
  /// number tells the live ones apart. See ActivationFileScope.
  void begin_forward(int microbatch);
  void end_forward() noexcept;
  /// Before the microbatch's backward: begins to read.
  void begin_backward(int microbatch);

  std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) override;

  int64_t file_bytes() const;
  const SpillFile& file() const { return file_; }
  /// Saved so far that the file had no room for, over all passes.
  int64_t bytes_without_room() const { return bytes_without_room_; }

 private:
  struct Block;
  class View;

  /// The file's part for one microbatch; -1: free.
  struct Part {
    int microbatch = -1;
    int64_t used = 0;
    int num_alive = 0;
    std::vector<Block*> blocks;  // in the order they were saved; null: gone
    size_t next_read = 0;        // those before it are not read yet
    int64_t last_write = 0;      // of the writer's numbers
  };

  explicit ActivationFile(const ActivationFileOptions& options);

  bool can_move(const at::Tensor& tensor);
  std::shared_ptr<Block> block_of(const c10::Storage& storage);
  void hold(Block& block);
  void move_oldest();
  void load(Block& block);
  void read_ahead(Part& part);
  void start_read(Block& block);
  void forget(Block& block) noexcept;
  void release_if_empty(Part& part) noexcept;

  const ActivationFileOptions options_;
  MemoryTracker& tracker_;
  SpillFile file_;
  StagedWriter writer_;
  std::vector<Part> parts_;
  Part* open_part_ = nullptr;  // of the forward pass; null: it found no room
  bool is_forward_ = false;
  /// Of the forward pass, by storage: one that is freed may have an heir.
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<Block>> blocks_;
  std::unordered_set<const c10::StorageImpl*> leaves_;
  std::unordered_set<const c10::StorageImpl*> stay_;
  std::list<Block*> held_;  // oldest first
  int64_t held_bytes_ = 0;
  int64_t ahead_bytes_ = 0;  // read and not yet used
  int64_t bytes_without_room_ = 0;
};

/// A microbatch's forward pass: what this thread saves in it moves to the file.
class ActivationFileScope {
 public:
  ActivationFileScope(ActivationFile& file, int microbatch);
  ~ActivationFileScope();
  ActivationFileScope(const ActivationFileScope&) = delete;
  ActivationFileScope& operator=(const ActivationFileScope&) = delete;

 private:
  ActivationFile& file_;
  const SavedTensorScope saved_;
};

}  // namespace triax
