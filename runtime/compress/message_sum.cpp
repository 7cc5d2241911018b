#include "runtime/compress/message_sum.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/message_allreduce.h"

namespace dlflow::runtime {
namespace {

/// Shares end at multiples of this, where blocks with a common scale may end (Int8).
constexpr size_t kAlignment = 256;

/// The most numbers of a share. A longer range and its messages would leave the cache between two
/// passes, and no other message would move meanwhile. 512 KiB as fp16 take 4 ms at 1 Gbit/s.
constexpr size_t kLargestShare = size_t{256} << 10;

struct Share {
  size_t first, count;
  template <typename T>
  std::span<T> of(std::span<T> values) const {
    return values.subspan(first, count);
  }
};

std::vector<Share> shares_of(size_t count, int parts) {
  const size_t blocks = (count + kAlignment - 1) / kAlignment;
  const auto begin = [&](int part) {
    return std::min(count, blocks * size_t(part) / size_t(parts) * kAlignment);
  };
  std::vector<Share> shares;
  for (int part = 0; part < parts; ++part) {
    shares.push_back({begin(part), begin(part + 1) - begin(part)});
  }
  return shares;
}

/// sum_of_shares() for a range whose shares are small enough.
Task sum_of_chunk(Link link, const Compressor& compressor, Occasion occasion,
                  std::span<float> unsent, std::span<float> sum) {
  const std::vector<Share> shares = shares_of(sum.size(), link.size());
  const auto self = size_t(link.rank());
  std::vector<size_t> sizes;
  for (const Share& share : shares) {
    sizes.push_back(compressor.message_bytes(share.count, occasion));
  }
  std::vector<std::byte> messages(total_of(sizes));
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    compress(compressor, occasion, {shares[rank].of(unsent), {}},
             block_of(std::span(messages), sizes, rank));
  }
  const std::vector<size_t> own_sizes(sizes.size(), sizes[self]);
  std::vector<std::byte> received(total_of(own_sizes));
  co_await all_to_all(link, messages, sizes, received, own_sizes);

  const std::span<float> own = shares[self].of(sum);
  std::ranges::fill(own, 0.0f);
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    compressor.add(block_of(std::span(received), own_sizes, rank), occasion, 1, own);
  }
  compress(compressor, occasion, {own, {}}, block_of(std::span(messages), sizes, self));
  const std::span<float> error = shares[self].of(unsent);
  for (size_t i = 0; i < own.size(); ++i) error[i] += own[i];

  co_await all_gather(link, messages, sizes);
  std::ranges::fill(sum, 0.0f);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    compressor.add(block_of(std::span(messages), sizes, rank), occasion, 1, shares[rank].of(sum));
  }
}

}  // namespace

Task sum_of_all_messages(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                         std::span<float> sum) {
  const std::vector<size_t> sizes(size_t(link.size()),
                                  compressor.message_bytes(sum.size(), occasion));
  std::vector<std::byte> messages(total_of(sizes));
  compress(compressor, occasion, unsent, block_of(std::span(messages), sizes, size_t(link.rank())));
  co_await all_gather(link, messages, sizes);
  std::ranges::fill(sum, 0.0f);
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    compressor.add(block_of(std::span(messages), sizes, rank), occasion, 1, sum);
  }
}

Task sum_of_added_messages(Link link, const Compressor& compressor, Occasion occasion,
                           Unsent unsent, std::span<float> sum) {
  std::vector<float> message(compressor.message_bytes(sum.size(), occasion) / sizeof(float));
  compress(compressor, occasion, unsent, std::as_writable_bytes(std::span(message)));
  co_await dense_sum(link, message);
  std::ranges::fill(sum, 0.0f);
  compressor.add(std::as_bytes(std::span(message)), occasion, 1, sum);
}

Task sum_of_shares(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                   std::span<float> sum) {
  const size_t chunk = kLargestShare * size_t(link.size());
  for (size_t first = 0; first < sum.size(); first += chunk) {
    const size_t count = std::min(chunk, sum.size() - first);
    co_await sum_of_chunk(link, compressor, occasion, unsent.error.subspan(first, count),
                          sum.subspan(first, count));
  }
}

Task dense_sum(Link link, std::span<float> values) {
  constexpr size_t kLatencyBytes = 32 << 10;  // as in allreduce_plan.cpp
  if (values.empty() || link.size() == 1) co_return;
  const bool few = link.size() == 2 || values.size_bytes() <= kLatencyBytes;
  co_await message_allreduce(few ? Algorithm::RecursiveDoubling : Algorithm::Rabenseifner,
                             std::move(link), values);
}

}  // namespace dlflow::runtime
