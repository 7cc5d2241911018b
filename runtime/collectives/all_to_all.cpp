#include "runtime/collectives/all_to_all.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Returns block `index` of the consecutive blocks in `bytes`.
template <typename Byte>
std::span<Byte> block(std::span<Byte> bytes, const std::vector<size_t>& sizes, int index) {
  return bytes.subspan(std::accumulate(sizes.begin(), sizes.begin() + index, size_t(0)),
                       sizes[size_t(index)]);
}

bool add_up(const std::vector<size_t>& sizes, size_t all, int ranks) {
  return sizes.size() == size_t(ranks) &&
         std::accumulate(sizes.begin(), sizes.end(), size_t(0)) == all;
}

}  // namespace

Task all_to_all(Link link, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                std::span<std::byte> received, std::vector<size_t> received_sizes) {
  DLFLOW_CHECK(add_up(sent_sizes, sent.size(), link.size()));
  DLFLOW_CHECK(add_up(received_sizes, received.size(), link.size()));
  const auto own = block(sent, sent_sizes, link.rank());
  DLFLOW_CHECK(own.size() == received_sizes[size_t(link.rank())]);
  std::ranges::copy(own, block(received, received_sizes, link.rank()).begin());
  for (int distance = 1; distance < link.size(); ++distance) {
    const int to = link.neighbour(distance), from = link.neighbour(-distance);
    co_await link.exchange(block(sent, sent_sizes, to), to, block(received, received_sizes, from),
                           from);
  }
}

}  // namespace dlflow::runtime
