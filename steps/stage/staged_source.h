#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "steps/stage/cache.h"
#include "steps/stage/fetch.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"

/// Bringing a source from its address to the outputs.
namespace dlflow::steps {

/// A source that is completely in the cache, unpacked if requested.
struct StagedSource {
  Listing listing;
  std::map<std::string, std::filesystem::path> contents;  ///< by hash; the paths from Cache::find

  uint64_t bytes() const;
};

/// The source if its content is pinned and the cache has all of it.
std::optional<StagedSource> find_staged(const Source& source, Cache& cache);

/// Brings the source, a single file, into the cache. If several jobs need it, one does the work and
/// the others wait.
///
/// Without a declared hash, a local file is hashed each time, and a server is asked each time
/// whether its content is still the remembered version. Throws Error, leaving the cache unchanged
/// except for an interrupted transfer, which is kept.
StagedSource stage_source(const Source& source, Cache& cache, const FetchOptions& options);

/// Places the file of `staged` at FOLDER/NAME, or the files of an archive below it. Copies nothing
/// if the file system can link, except executables.
void place(const StagedSource& staged, const std::filesystem::path& folder,
           const std::string& name);

}  // namespace dlflow::steps
