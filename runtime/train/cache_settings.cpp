#include <string>

#include "base/error.h"
#include "base/units.h"
#include "runtime/train/settings_parts.h"
#include "runtime/train/with_reader.h"

namespace dlflow::runtime {
namespace {

uint64_t read_size(const Json& size, const std::string& key) {
  if (size.is_number_integer() && size > 0) return size;
  try {
    if (size.is_string()) return parse_size(size.get<std::string>());
  } catch (const Error&) {  // is told below, with the key
  }
  WithReader::fail(key, "a size, such as 4GiB");
}

}  // namespace

std::optional<CacheBudget> read_cache(const Json* cache, bool scratch) {
  if (cache == nullptr) return std::nullopt;
  if (scratch)
    WithReader::refuse("scratch",
                       "cannot be used together with 'cache', which has its own 'scratch'");
  WithReader reader(*cache, "cache");
  CacheBudget budget;
  const Json* memory = reader.find("memory");
  if (memory == nullptr) WithReader::refuse("cache.memory", "is missing: a size, such as 4GiB");
  budget.memory_bytes = read_size(*memory, "cache.memory");
  if (const Json* disk = reader.find("scratch")) {
    budget.scratch_bytes = read_size(*disk, "cache.scratch");
  }
  budget.share = reader.flag("share", false);
  reader.finish();
  return budget;
}

}  // namespace dlflow::runtime
