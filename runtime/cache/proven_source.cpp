#include "runtime/cache/proven_source.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"

namespace dlflow::runtime {

ProvenSource::ProvenSource(const ChunkedDataset& data, ChunkSource& source,
                           const ChunkMemory& books, std::function<void(const std::string&)> warn)
    : data_(data), source_(source), books_(books), warn_(std::move(warn)) {}

void ProvenSource::read(uint32_t index, std::span<std::byte> to) {
  const Chunk chunk = data_.chunk(index);
  const std::string& file = data_.files()[chunk.file].string();
  for (int attempt = 0; attempt < 2; ++attempt) {
    source_.read(chunk, to);
    books_.count_source(to.size());
    if (is_whole(chunk, to)) return;
    source_.forget(chunk);
    if (books_.count_damage()) warn_(file + ": a part came damaged, and is read once more");
  }
  throw Error(Errc::Corrupt,
              fmt::format("{}: bytes {} to {} are damaged: their SHA-256 does not hold, twice; "
                          "copy it again",
                          file, chunk.offset, chunk.offset + chunk.bytes - 1));
}

}  // namespace dlflow::runtime
