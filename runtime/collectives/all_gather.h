#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// The sum of `sizes`.
inline size_t total_of(const std::vector<size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), size_t(0));
}

/// Returns block `index` of the consecutive blocks in `bytes`.
template <typename Byte>
std::span<Byte> block_of(std::span<Byte> bytes, const std::vector<size_t>& sizes, size_t index) {
  return bytes.subspan(std::accumulate(sizes.begin(), sizes.begin() + long(index), size_t(0)),
                       sizes[index]);
}

/// Fills `bytes` with the blocks of all ranks, one after the other: block r has sizes[r] bytes, the
/// sizes add up to bytes.size(), and each rank has put its own block in place. All ranks pass the
/// same sizes; 0 is allowed.
///
/// Cost for P ranks and n bytes in all, with a seconds per message and b per byte sent: (P-1) a +
/// (P-1)/P n b with equal blocks, which is optimal; uneven blocks cost as if all had the size of
/// the largest.
/// Source: the second half of Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
Task all_gather(Link link, std::span<std::byte> bytes, std::vector<size_t> sizes);

/// The same for the shares of `values`, as reduce_scatter leaves them.
Task all_gather(Link link, Values values);

}  // namespace dlflow::runtime
