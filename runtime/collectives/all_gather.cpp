#include "runtime/collectives/all_gather.h"

#include "base/error.h"

namespace dlflow::runtime {

Task all_gather(Link link, std::span<std::byte> bytes, std::vector<size_t> sizes) {
  const int ranks = link.size();
  DLFLOW_CHECK(sizes.size() == size_t(ranks));
  DLFLOW_CHECK(total_of(sizes) == bytes.size());
  const auto block = [&](int rank) { return block_of(bytes, sizes, size_t(rank)); };
  // In round k each rank passes on the block that it received in round k-1.
  for (int round = 0; round < ranks - 1; ++round) {
    co_await link.exchange(block(link.neighbour(-round)), link.neighbour(1),
                           block(link.neighbour(-round - 1)), link.neighbour(-1));
  }
}

Task all_gather(Link link, Values values) {
  std::vector<size_t> sizes;
  for (int rank = 0; rank < link.size(); ++rank) {
    sizes.push_back(values.share(rank, link.size()).bytes().size());
  }
  return all_gather(std::move(link), values.bytes(), std::move(sizes));
}

}  // namespace dlflow::runtime
