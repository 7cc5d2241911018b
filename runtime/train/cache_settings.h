#pragma once

#include <optional>

#include "base/json.h"
#include "runtime/cache/chunk_cache.h"

namespace dlflow::runtime {

/// Reads `cache:` of a train or evaluate step; nothing if it is not there. Throws
/// Error{InvalidInput} naming the key, also beside `scratch: true`.
std::optional<CacheBudget> read_cache(const Json* cache, bool scratch);

}  // namespace dlflow::runtime
