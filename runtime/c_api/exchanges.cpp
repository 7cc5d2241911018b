#include "runtime/c_api/exchanges.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/c_api/reduction.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReducedBytes = 1 << 20;

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

using Blocks = std::vector<std::span<std::byte>>;

/// The consecutive blocks in `bytes`.
Blocks blocks_of(std::span<std::byte> bytes, std::span<const size_t> sizes) {
  Blocks blocks;
  for (const size_t size : sizes) {
    blocks.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return blocks;
}

Offer nothing(const Link& link) { return {{}, std::vector<Offer::ByteRange>(size_t(link.size()))}; }

}  // namespace

Task sum_in_pieces(Allreduce& sums, Pieces pieces, Values input, Values output, int divisor) {
  const size_t piece = pieces.size;
  struct UnderWay {
    Allreduce::Ticket ticket;
    size_t first;
    Values place;
  };
  std::deque<UnderWay> under_way;
  for (size_t started = 0, finished = 0; finished * piece < input.count;) {
    if (started * piece < input.count && under_way.size() < pieces.count) {
      const size_t first = started * piece, count = std::min(piece, input.count - first);
      const size_t place = started % pieces.count * piece;
      const Values numbers = sums.numbers().subrange(place, count);
      convert(numbers, input.subrange(first, count));
      under_way.push_back({sums.start(place, count), first, numbers});
      ++started;
      continue;
    }
    const UnderWay& oldest = under_way.front();
    co_await Until(-1, [&] {
      sums.poll();
      return sums.done(oldest.ticket);
    });
    if (output.data != nullptr) {
      const Values sum = output.subrange(oldest.first, oldest.place.count);
      convert(sum, oldest.place);
      if (divisor != 1) divide(sum, divisor);
    }
    under_way.pop_front();
    ++finished;
    Pause pause;
    co_await pause;
  }
}

Task broadcast(Paths paths, std::span<std::byte> bytes, int root) {
  const Link& link = paths.link;
  if (paths.node == nullptr) {
    co_await broadcast(link, bytes, root);
    co_return;
  }
  const bool sends = link.rank() == root;
  Blocks received(size_t(link.size()));
  if (!sends) received[size_t(root)] = bytes;
  Offer offer = nothing(link);
  if (sends) offer = Offer::to_all(bytes, link.size());
  co_await paths.node->exchange(std::move(offer), std::move(received));
}

Task all_to_all_blocks(Paths paths, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                       std::span<std::byte> received, std::vector<size_t> received_sizes) {
  const Link& link = paths.link;
  if (paths.node == nullptr) {
    co_await all_to_all(link, sent, std::move(sent_sizes), received, std::move(received_sizes));
    co_return;
  }
  const size_t own = size_t(link.rank());
  Blocks blocks = blocks_of(received, received_sizes);
  copy_bytes(blocks[own].data(), block_of(sent, sent_sizes, own).data(), sent_sizes[own]);
  Offer offer = Offer::to_each(sent, sent_sizes, link.rank());
  co_await paths.node->exchange(std::move(offer), std::move(blocks));
}

Task all_gather_blocks(Paths paths, std::span<const std::byte> input, std::span<std::byte> output,
                       std::vector<size_t> sizes) {
  const Link& link = paths.link;
  Blocks blocks = blocks_of(output, sizes);
  copy_bytes(blocks[size_t(link.rank())].data(), input.data(), input.size());
  if (paths.node == nullptr) {
    co_await all_gather(link, output, std::move(sizes));
  } else {
    Offer offer = Offer::to_all(input, link.size());
    co_await paths.node->exchange(std::move(offer), std::move(blocks));
  }
}

Task reduce_scatter_blocks(Paths paths, Reduction reduction, std::span<const std::byte> input,
                           std::vector<size_t> sizes, std::byte* output) {
  const size_t ranks = size_t(paths.link.size()), own = sizes[size_t(paths.link.rank())];
  std::vector<std::byte> received(own * ranks);
  std::vector<size_t> received_sizes(ranks, own);
  co_await all_to_all_blocks(paths, input, sizes, received, std::move(received_sizes));
  std::vector<const std::byte*> blocks;
  for (size_t rank = 0; rank < ranks; ++rank) blocks.push_back(received.data() + rank * own);
  reduce_blocks(reduction.type, reduction.op, output, blocks, own / size_of(reduction.type));
}

Task reduce_in_pieces(Paths paths, Reduction reduction, Reduced values) {
  const size_t element = size_of(reduction.type), piece = kReducedBytes / element;
  std::vector<std::byte> result(std::min(piece, values.count) * element);
  for (size_t first = 0; first < values.count; first += piece) {
    const size_t count = std::min(piece, values.count - first);
    std::vector<size_t> sizes;
    size_t before = 0, own = 0;
    for (size_t rank = 0, ranks = size_t(paths.link.size()); rank < ranks; ++rank) {
      sizes.push_back((count * (rank + 1) / ranks - count * rank / ranks) * element);
      if (rank < size_t(paths.link.rank())) before += sizes.back();
      if (rank == size_t(paths.link.rank())) own = sizes.back();
    }
    const std::span<const std::byte> input(values.input + first * element, count * element);
    co_await reduce_scatter_blocks(paths, reduction, input, sizes, result.data() + before);
    const std::span<std::byte> all = std::span(result).first(count * element);
    co_await all_gather_blocks(paths, all.subspan(before, own), all, std::move(sizes));
    if (values.output != nullptr)
      copy_bytes(values.output + first * element, all.data(), all.size());
  }
}

Task gather(Paths paths, std::span<const std::byte> input, std::byte* output, int root) {
  const Link& link = paths.link;
  const bool receives = link.rank() == root;
  Blocks blocks(size_t(link.size()));
  for (size_t rank = 0; receives && rank < blocks.size(); ++rank) {
    blocks[rank] = {output + rank * input.size(), input.size()};
  }
  if (receives) copy_bytes(blocks[size_t(root)].data(), input.data(), input.size());
  if (paths.node != nullptr) {
    Offer offer = nothing(link);
    if (!receives) {
      offer.blocks.push_back(input);
      offer.ranges[size_t(root)] = {0, input.size()};
    }
    co_await paths.node->exchange(std::move(offer), std::move(blocks));
    co_return;
  }
  Messages messages = link.messages();
  if (!receives) link.send(messages, input, root);
  for (int rank = 0; receives && rank < link.size(); ++rank) {
    if (rank != root) link.receive(messages, blocks[size_t(rank)], rank);
  }
  co_await messages;
}

Task scatter(Paths paths, const std::byte* input, std::span<std::byte> output, int root) {
  const Link& link = paths.link;
  const bool sends = link.rank() == root;
  const size_t size = output.size(), ranks = size_t(link.size());
  if (sends) copy_bytes(output.data(), input + size_t(root) * size, size);
  if (paths.node != nullptr) {
    Blocks received(ranks);
    if (!sends) received[size_t(root)] = output;
    Offer offer = nothing(link);
    const std::vector<size_t> sizes(ranks, size);
    if (sends) offer = Offer::to_each({input, ranks * size}, sizes, root);
    co_await paths.node->exchange(std::move(offer), std::move(received));
    co_return;
  }
  Messages messages = link.messages();
  if (!sends) link.receive(messages, output, root);
  for (int rank = 0; sends && rank < link.size(); ++rank) {
    if (rank != root) link.send(messages, {input + size_t(rank) * size, size}, rank);
  }
  co_await messages;
}

/// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
/// Int. J. Parallel Programming 17 (1988).
Task barrier(Link link) {
  for (int distance = 1; distance < link.size(); distance *= 2) {
    co_await link.exchange({}, link.neighbour(distance), {}, link.neighbour(-distance));
  }
}

Task monitored_barrier(Link link, std::chrono::milliseconds timeout) {
  if (link.rank() != 0) {
    co_await link.send({}, 0);
    co_await link.receive({}, 0);
    co_return;
  }
  const auto deadline = Clock::now() + timeout;
  std::vector<Messages> arrivals;
  std::vector<bool> has_come(size_t(link.size()), true);
  for (int rank = 1; rank < link.size(); ++rank) arrivals.push_back(link.receive({}, rank));
  co_await Until(-1, [&] {
    bool all = true;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      has_come[i + 1] = arrivals[i].poll() == Progress::Done;
      all = all && has_come[i + 1];
    }
    return all || Clock::now() >= deadline;
  });
  std::string missing;
  for (size_t rank = 1; rank < has_come.size(); ++rank) {
    if (!has_come[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!missing.empty()) {
    throw Error(Errc::Unavailable,
                "monitored barrier: " + std::to_string(timeout.count()) +
                    " ms have passed, and these ranks have not arrived: " + missing);
  }
  Messages answers = link.messages();
  for (int rank = 1; rank < link.size(); ++rank) link.send(answers, {}, rank);
  co_await answers;
}

}  // namespace dlflow::runtime
