#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "steps/stage/cache.h"
#include "steps/stage/fetch.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"

/// A source on its way from its address to the outputs.
namespace dlflow::steps {

/// A source that is wholly in the cache, unpacked if that was asked for.
struct StagedSource {
  Listing listing;
  std::map<std::string, std::filesystem::path> contents;  ///< by hash; as Cache::find gives them

  uint64_t bytes() const;
};

/// The source if its content is pinned and the cache has all of it.
std::optional<StagedSource> find_staged(const Source& source, Cache& cache);

/// Brings the source, which is of one file, into the cache: of several jobs that want it one does,
/// the others wait.
///
/// Without a declared hash, a local file is hashed each time, and a server is asked each time
/// whether its content is still the remembered version.
/// Throws Error; then the cache is as before, but for a transfer cut short, which is kept.
StagedSource stage_source(const Source& source, Cache& cache, const FetchOptions& options);

/// Puts the files of `staged` to FOLDER/NAME, or below it if the source is an archive. Nothing is
/// copied if the file system can link.
void place(const StagedSource& staged, const std::filesystem::path& folder,
           const std::string& name);

}  // namespace dlflow::steps
