#include "runtime/cache/scratch_slots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/remove_tree.h"

namespace dlflow::runtime {

namespace fs = std::filesystem;

ScratchRoom::ScratchRoom(const NodeDisk& disk, size_t num_slots, size_t slot_bytes)
    : root_(own_node_folder(disk)) {
  const FileLock registry = lock_registry(root_);
  clear_up(root_, {});
  num_slots_ = std::min<uint64_t>(num_slots, room_within(root_, disk.budget_bytes) / slot_bytes);
  if (num_slots_ == 0) throw_no_room(root_, slot_bytes, disk.budget_bytes);
  for (int i = 0; !use_; ++i) {
    folder_ = root_ / ("chunks-" + process_name() + "-" + std::to_string(i));
    use_ = try_node_lock(node_lock_of(folder_));
  }
  file_ = folder_ / "chunks";
  try {
    make_directories(folder_);
    make_file_of_length(file_, num_slots_ * slot_bytes);
  } catch (...) {
    leave();
    throw;
  }
}

ScratchRoom::~ScratchRoom() {
  try {
    const FileLock registry = lock_registry(root_);
    leave();
  } catch (const std::exception&) {
    // Whoever comes next clears up.
  }
}

/// Under the registry's lock.
void ScratchRoom::leave() noexcept {
  std::error_code stays_for_the_next;
  remove_tree(folder_, stays_for_the_next);
  use_.reset();
  fs::remove(node_lock_of(folder_), stays_for_the_next);
}

ScratchSlots::ScratchSlots(const fs::path& file, size_t slot_bytes)
    : path_(file), file_(::open(file.c_str(), O_RDWR | O_CLOEXEC)), slot_bytes_(slot_bytes) {
  if (!file_) throw_errno("cannot open " + file.string(), errno);
}

void ScratchSlots::read(size_t slot, std::span<std::byte> to) const {
  uint64_t offset = slot * slot_bytes_;
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.get(), to.data(), to.size(), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_errno("cannot read " + path_.string(), got < 0 ? errno : EIO);
    to = to.subspan(size_t(got));
    offset += uint64_t(got);
  }
}

void ScratchSlots::write(size_t slot, std::span<const std::byte> from) const {
  uint64_t offset = slot * slot_bytes_;
  while (!from.empty()) {
    const ssize_t put = ::pwrite(file_.get(), from.data(), from.size(), off_t(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw_errno("cannot write " + path_.string(), put < 0 ? errno : ENOSPC);
    from = from.subspan(size_t(put));
    offset += uint64_t(put);
  }
}

}  // namespace dlflow::runtime
