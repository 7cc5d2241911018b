#pragma once

#include <vector>

#include "steps/stage/cache.h"
#include "steps/stage/fetch.h"
#include "steps/stage/manifest.h"
#include "steps/stage/request.h"

namespace dlflow::steps {

/// The files of `source`, each a source of its own with what a listing told of it: for one file, or
/// a commit, the source itself. `manifest` is the one of a folder or pattern, or null; then each
/// file has its hash from there. Throws Error if there are no files, or others than in the
/// manifest.
std::vector<Source> expand(const Source& source, const Manifest* manifest, Cache& cache,
                           const RetryPolicy& retry);

}  // namespace dlflow::steps
