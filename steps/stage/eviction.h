#pragma once

#include <cstdint>
#include <filesystem>

/// Eviction of objects from a full cache.
namespace dlflow::steps {

/// Removes unused objects and abandoned downloads, least recently used first, until the content of
/// `cache` and `bytes` more take at most `budget_bytes`. The caller holds the budget lock. If
/// removing all of them would not be enough, removes nothing and throws Error{InvalidInput} with
/// the figures.
void evict(const std::filesystem::path& cache, uint64_t bytes, uint64_t budget_bytes);

}  // namespace dlflow::steps
