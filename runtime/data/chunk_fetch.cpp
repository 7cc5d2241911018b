#include "runtime/data/chunk_fetch.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"
#include "base/sha256.h"

namespace dlflow::runtime {
namespace {

bool is_whole(const Chunk& chunk, std::span<const std::byte> content) {
  return sha256_hex({reinterpret_cast<const char*>(content.data()), content.size()}) ==
         chunk.sha256;
}

}  // namespace

ChunkFetch::ChunkFetch(const ChunkedDataset& data, ChunkSource& source, ChunkMemory& memory,
                       const std::filesystem::path& scratch,
                       std::function<void(const std::string&)> warn)
    : data_(data), source_(source), memory_(memory), warn_(std::move(warn)) {
  if (scratch.empty()) return;
  try {
    scratch_.emplace(scratch, data.chunk_bytes());
  } catch (const Error& error) {
    give_up_scratch(error.what());
  }
}

void ChunkFetch::carry_out(const ChunkLoad& load) {
  const std::span<std::byte> slot = memory_.slot(load.slot);
  if (load.demote_to) {
    demote(slot.first(data_.chunks()[load.evicted].bytes), *load.demote_to);
  }
  const std::span<std::byte> to = slot.first(data_.chunks()[load.chunk].bytes);
  if (!load.promote_from || !promote(load.chunk, *load.promote_from, to)) {
    read_source(load.chunk, to);
  }
  memory_.set_loaded(load.slot, load.number);
}

void ChunkFetch::demote(std::span<const std::byte> from, uint32_t to) {
  if (!scratch_ || !memory_.uses_scratch()) return;
  try {
    scratch_->write(to, from);
  } catch (const Error& error) {
    give_up_scratch(error.what());
  }
}

bool ChunkFetch::promote(uint32_t chunk, uint32_t from, std::span<std::byte> to) {
  if (!scratch_ || !memory_.uses_scratch()) return false;
  try {
    scratch_->read(from, to);
  } catch (const Error& error) {
    give_up_scratch(error.what());
    return false;
  }
  if (is_whole(data_.chunks()[chunk], to)) {
    memory_.count_scratch(to.size());
    return true;
  }
  if (memory_.count_damage()) {
    warn_(scratch_->file().string() + ": a part was damaged, and is read from where it came from");
  }
  return false;
}

void ChunkFetch::read_source(uint32_t index, std::span<std::byte> to) {
  const Chunk& chunk = data_.chunks()[index];
  const std::string& file = data_.files()[chunk.file].string();
  for (int attempt = 0; attempt < 2; ++attempt) {
    source_.read(chunk, to);
    memory_.count_source(to.size());
    if (is_whole(chunk, to)) return;
    source_.forget(chunk);
    if (memory_.count_damage()) warn_(file + ": a part came damaged, and is read once more");
  }
  throw Error(Errc::Corrupt,
              fmt::format("{}: bytes {} to {} are damaged: their SHA-256 does not hold, twice; "
                          "copy it again",
                          file, chunk.offset, chunk.offset + chunk.bytes - 1));
}

void ChunkFetch::give_up_scratch(const std::string& reason) {
  if (!memory_.give_up_scratch()) return;
  warn_("the cache goes on without the node's disk: " + reason);
}

}  // namespace dlflow::runtime
