#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include "base/handle.h"
#include "runtime/data/node_disk.h"

/// Chunks on a node's own disk: one file of equal slots.
namespace dlflow::runtime {

/// The file, made by one process of a job on a node and removed with this object. Whoever is killed
/// leaves it without a lock, and the next to come to the node removes it: nothing in it is ever
/// used by another job.
class ScratchRoom {
 public:
  /// Takes the space for `num_slots` at once, or for as many as the budget has left. Throws Error
  /// with the reason why there is none: no such disk, full, read-only, nothing left of the budget.
  ScratchRoom(const NodeDisk& disk, size_t num_slots, size_t slot_bytes);
  ScratchRoom(const ScratchRoom&) = delete;
  ScratchRoom& operator=(const ScratchRoom&) = delete;
  ~ScratchRoom();

  const std::filesystem::path& file() const { return file_; }
  size_t num_slots() const { return num_slots_; }

 private:
  void leave() noexcept;

  std::filesystem::path root_, folder_, file_;
  size_t num_slots_ = 0;
  std::optional<FileLock> use_;
};

/// A ScratchRoom as each process of the job on the node uses it.
class ScratchSlots {
 public:
  ScratchSlots(const std::filesystem::path& file, size_t slot_bytes);

  /// The first bytes of a slot. Both throw Error.
  void read(size_t slot, std::span<std::byte> to) const;
  void write(size_t slot, std::span<const std::byte> from) const;

  const std::filesystem::path& file() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  size_t slot_bytes_;
};

}  // namespace dlflow::runtime
