#pragma once

#include <map>
#include <string>
#include <string_view>

#include "steps/stage/cache.h"
#include "steps/stage/fetch.h"
#include "steps/stage/listing.h"
#include "steps/stage/request.h"

/// Lists of files with their hashes, as `sha256sum` prints them.
namespace dlflow::steps {

/// Name -> SHA-256. Names are relative to the folder, the pattern's folder, or the archive's top.
using Manifest = std::map<std::string, std::string>;

/// Reads "SHA256  NAME" lines. Throws Error{InvalidInput} naming `where` and the line.
Manifest parse_manifest(std::string_view text, const std::string& where);

/// Loads a source's manifest from the run's frozen files, or from its address and verifies it.
Manifest load_manifest(const ManifestSource& source, Cache& cache, const FetchOptions& options);

/// Throws Error{Corrupt} with all differences, up to ten of each kind: files that are only on one
/// side, and files whose hashes differ (an empty hash in `found` is unknown yet). Ignores links in
/// `found`, which sha256sum does not list.
void compare(const Listing& found, const Manifest& manifest, const std::string& what);

}  // namespace dlflow::steps
