#include "runtime/cache/scratch_level.h"

#include <utility>

#include "base/error.h"
#include "runtime/cache/proven_source.h"

namespace dlflow::runtime {

ScratchLevel::ScratchLevel(const ChunkedDataset& data, const ChunkMemory& books,
                           const std::filesystem::path& file,
                           std::function<void(const std::string&)> warn)
    : data_(data), books_(books), warn_(std::move(warn)) {
  if (file.empty()) return;
  try {
    slots_.emplace(file, data.chunk_bytes());
  } catch (const Error& error) {
    give_up(error.what());
  }
}

bool ScratchLevel::write(size_t slot, std::span<const std::byte> from) {
  if (!is_usable()) return false;
  try {
    slots_->write(slot, from);
    return true;
  } catch (const Error& error) {
    give_up(error.what());
    return false;
  }
}

bool ScratchLevel::read(size_t slot, uint32_t chunk, std::span<std::byte> to) {
  if (!is_usable()) return false;
  try {
    slots_->read(slot, to);
  } catch (const Error& error) {
    give_up(error.what());
    return false;
  }
  if (is_whole(data_.chunk(chunk), to)) {
    books_.count_scratch(to.size());
    return true;
  }
  if (books_.count_damage()) {
    warn_(slots_->file().string() + ": a part was damaged, and is read from where it came from");
  }
  return false;
}

void ScratchLevel::give_up(const std::string& reason) {
  if (!books_.give_up_scratch()) return;
  warn_("the cache goes on without the node's disk: " + reason);
}

}  // namespace dlflow::runtime
