#pragma once

#include <cstdint>
#include <filesystem>

/// The choice of objects that leave a full cache.
namespace dlflow::steps {

/// Removes objects that are not in use and downloads that nobody continues, least recently used
/// first, until what is below `cache` and `bytes` more take at most `budget_bytes`. The caller
/// holds the lock for it. Throws Error{InvalidInput} with the figures if all of that is not enough;
/// then nothing was removed.
void evict(const std::filesystem::path& cache, uint64_t bytes, uint64_t budget_bytes);

}  // namespace dlflow::steps
