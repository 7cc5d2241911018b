#include "runtime/data/proven_images.h"

#include <fmt/core.h>

#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kBits = 64;

size_t num_words(const ChunkedDataset& data) { return (data.num_chunks() + kBits - 1) / kBits; }

}  // namespace

size_t ProvenImages::record_bytes(const ChunkedDataset& data) {
  return (1 + num_words(data)) * sizeof(std::atomic<uint64_t>);
}

// Zeroed memory has the value of these atomics after construction, for every rank.
ProvenImages::ProvenImages(std::shared_ptr<const ChunkedDataset> data, std::byte* record)
    : data_(std::move(data)),
      arrivals_(std::launder(reinterpret_cast<std::atomic<uint64_t>*>(record))),
      proven_(arrivals_ + 1, num_words(*data_)) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
}

/// Two ranks may verify the same chunk at the same time, which is harmless.
void ProvenImages::check(const void* image) {
  const ImagePlace place = data_->place_of(image);
  std::atomic<uint64_t>& word = proven_[place.chunk / kBits];
  const uint64_t bit = uint64_t{1} << place.chunk % kBits;
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  const Chunk chunk = data_->chunk(place.chunk);
  const std::string_view content(static_cast<const char*>(image) - place.offset, chunk.bytes);
  if (sha256_hex(content) != chunk.sha256) {
    throw Error(Errc::Corrupt,
                fmt::format("{}: bytes {} to {} are damaged: their SHA-256 does not match; copy it "
                            "again",
                            data_->files()[chunk.file].string(), chunk.offset,
                            chunk.offset + chunk.bytes - 1));
  }
  word.fetch_or(bit, std::memory_order_relaxed);
  arrivals_->fetch_add(chunk.bytes, std::memory_order_relaxed);
}

}  // namespace dlflow::runtime
