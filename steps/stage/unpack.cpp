#include "steps/stage/unpack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/archive/byte_source.h"
#include "base/archive/tar.h"
#include "base/archive/zip.h"
#include "base/error.h"
#include "steps/stage/tool_source.h"

namespace dlflow::steps {
namespace {

std::string note_name(const std::string& key, Unpack unpack) {
  return "unpacked/" + name(unpack) + "-" + key + ".json";
}

/// A tar archive, compressed or not.
std::unique_ptr<ByteSource> open_tar(const std::filesystem::path& packed) {
  if (is_gzip(packed)) return open_gzip(packed);
  const auto unpacker = unpacker_of(packed);
  return unpacker ? open_unpacked(packed, *unpacker) : open_file(packed);
}

void read_gzip(const std::filesystem::path& packed, Unpacking& unpacking) {
  if (const auto unpacker = unpacker_of(packed)) {
    throw Error(Errc::InvalidInput, "it is compressed by " + unpacker->format +
                                        " and not by gzip; compress it with gzip, or stage it as "
                                        "it is and unpack it in a step");
  }
  const auto content = open_gzip(packed);
  std::vector<char> buffer(size_t{1} << 18);
  unpacking.begin_file("content", 0);
  for (size_t got = content->read(buffer); got > 0; got = content->read(buffer)) {
    unpacking.write({buffer.data(), got});
  }
}

/// A gzip file holds one content without a name, which a listing shows as the empty name.
Listing without_name(Listing listing) {
  auto only = listing.extract(listing.begin());
  only.key() = "";
  listing.insert(std::move(only));
  return listing;
}

Listing read_archive(const std::filesystem::path& packed, Unpack unpack, Unpacking& unpacking) {
  switch (unpack) {
    case Unpack::Gzip:
      read_gzip(packed, unpacking);
      return without_name(unpacking.finish());
    case Unpack::Zip:
      read_zip(packed, unpacking);
      return unpacking.finish();
    case Unpack::Tar: {
      const auto archive = open_tar(packed);
      read_tar(*archive, unpacking, max_unpacked_entries(std::filesystem::file_size(packed)));
      return unpacking.finish();
    }
    case Unpack::None:
      break;
  }
  DLFLOW_CHECK(false && "there is nothing to unpack");
  return {};
}

}  // namespace

Listing unpack_to_cache(const std::filesystem::path& packed, const std::string& key, Unpack unpack,
                        Cache& cache, UnpackLimits limits) {
  if (cache.budget_bytes() > 0) limits.max_bytes = std::min(limits.max_bytes, cache.budget_bytes());
  Unpacking unpacking([&] { return cache.new_file(); }, std::filesystem::file_size(packed), limits);
  Listing listing = read_archive(packed, unpack, unpacking);
  cache.add(unpacking.contents());
  cache.write_note(note_name(key, unpack), to_json(listing));
  return listing;
}

std::optional<Listing> remembered_listing(const std::string& key, Unpack unpack,
                                          const Cache& cache) {
  const auto note = cache.note(note_name(key, unpack));
  return note ? listing_from_json(*note) : std::nullopt;
}

}  // namespace dlflow::steps
