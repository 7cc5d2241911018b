#pragma once

#include <filesystem>

#include "steps/stage/cache.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"
#include "steps/stage/unpacking.h"

/// Unpacking an archive into files in the cache.
namespace dlflow::steps {

/// Unpacks `packed`, whose content has the key `key` (its SHA-256, or a commit), as `unpack` asks
/// (a tar may be compressed by gzip, xz, bzip2 or zstd), adds the contents to the cache and
/// remembers the listing. Throws Error if the archive is damaged or has a refused entry; the cache
/// is then unchanged.
Listing unpack_to_cache(const std::filesystem::path& packed, const std::string& key, Unpack unpack,
                        Cache& cache, UnpackLimits limits = {});

/// The remembered listing of an earlier unpacking, or nothing.
std::optional<Listing> remembered_listing(const std::string& key, Unpack unpack,
                                          const Cache& cache);

}  // namespace dlflow::steps
