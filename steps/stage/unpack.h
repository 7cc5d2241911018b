#pragma once

#include <filesystem>

#include "steps/stage/cache.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"
#include "steps/stage/unpacking.h"

/// From a packed file to files in the cache.
namespace dlflow::steps {

/// Unpacks `packed`, for whose content `key` (its SHA-256, or a commit) stands, as `unpack` says (a
/// tar may be compressed by gzip, xz, bzip2 or zstd), adds the contents to the cache and remembers
/// what they are. Throws Error if the archive is damaged or holds what is refused; then the cache
/// is as before.
Listing unpack_to_cache(const std::filesystem::path& packed, const std::string& key, Unpack unpack,
                        Cache& cache, UnpackLimits limits = {});

/// The files of an earlier unpacking, or nothing.
std::optional<Listing> remembered_listing(const std::string& key, Unpack unpack,
                                          const Cache& cache);

}  // namespace dlflow::steps
