#include "runtime/collectives/all_to_all.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/collectives/all_gather.h"

namespace dlflow::runtime {
namespace {

bool add_up(const std::vector<size_t>& sizes, size_t all, int ranks) {
  return sizes.size() == size_t(ranks) && total_of(sizes) == all;
}

}  // namespace

Task all_to_all(Link link, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                std::span<std::byte> received, std::vector<size_t> received_sizes) {
  DLFLOW_CHECK(add_up(sent_sizes, sent.size(), link.size()));
  DLFLOW_CHECK(add_up(received_sizes, received.size(), link.size()));
  const auto sent_to = [&](int rank) { return block_of(sent, sent_sizes, size_t(rank)); };
  const auto place_of = [&](int rank) { return block_of(received, received_sizes, size_t(rank)); };
  const auto own = sent_to(link.rank());
  DLFLOW_CHECK(own.size() == received_sizes[size_t(link.rank())]);
  std::ranges::copy(own, place_of(link.rank()).begin());
  for (int distance = 1; distance < link.size(); ++distance) {
    const int to = link.neighbour(distance), from = link.neighbour(-distance);
    co_await link.exchange(sent_to(to), to, place_of(from), from);
  }
}

}  // namespace dlflow::runtime
