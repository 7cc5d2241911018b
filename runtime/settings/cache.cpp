#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

std::optional<CacheBudget> read_cache(const Json* cache, bool scratch) {
  if (cache == nullptr) return std::nullopt;
  if (scratch)
    WithReader::refuse("scratch",
                       "cannot be used together with 'cache', which has its own 'scratch'");
  WithReader reader(*cache, "cache");
  CacheBudget budget;
  budget.memory_bytes = reader.size("memory", {});
  budget.scratch_bytes = reader.size("scratch", budget.scratch_bytes);
  budget.share = reader.flag("share", false);
  reader.finish();
  return budget;
}

}  // namespace dlflow::runtime
