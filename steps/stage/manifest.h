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

/// Name -> SHA-256. Names are relative: to the folder of a folder or pattern, to an archive's top.
using Manifest = std::map<std::string, std::string>;

/// Reads "SHA256  NAME" lines. Throws Error{InvalidInput} naming `where` and the line.
Manifest parse_manifest(std::string_view text, const std::string& where);

/// The manifest of a source, from the run's frozen files or, verified, from its address.
Manifest load_manifest(const ManifestSource& source, Cache& cache, const FetchOptions& options);

/// Throws Error{Corrupt} with all differences, up to ten of a kind: files that only one side has,
/// and those whose hashes differ (an empty hash in `found` is not known yet). Links in `found` are
/// not compared, since sha256sum does not list them.
void compare(const Listing& found, const Manifest& manifest, const std::string& what);

}  // namespace dlflow::steps
