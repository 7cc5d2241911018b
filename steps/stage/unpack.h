#pragma once

#include <filesystem>

#include "steps/stage/cache.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"
#include "steps/stage/unpacking.h"

/// From a packed file to files in the cache.
namespace dlflow::steps {

/// Unpacks `packed`, whose hash is `sha256`, as `unpack` says (a tar may be packed by gzip), adds
/// the contents to the cache and remembers what they are. Throws Error if the archive is damaged or
/// holds what is refused; then the cache is as before.
Listing unpack_to_cache(const std::filesystem::path& packed, const std::string& sha256,
                        Unpack unpack, Cache& cache, UnpackLimits limits = {});

/// What unpacking gave when it was done before, or nothing.
std::optional<Listing> remembered_listing(const std::string& sha256, Unpack unpack,
                                          const Cache& cache);

}  // namespace dlflow::steps
