#include "runtime/c_api/exchanges.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <string>

#include "base/error.h"
#include "runtime/c_api/reduction.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_to_all.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReducedBytes = 1 << 20;

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

Task sum_in_pieces(Allreduce& sums, size_t piece, size_t num_pieces, Reduced values, bool average,
                   int num_ranks) {
  struct UnderWay {
    Allreduce::Ticket ticket;
    size_t first, count;
    Values place;
  };
  const size_t element = size_of(sums.numbers().type);
  std::deque<UnderWay> under_way;
  for (size_t started = 0, finished = 0; finished * piece < values.count;) {
    if (started * piece < values.count && under_way.size() < num_pieces) {
      const size_t first = started * piece, count = std::min(piece, values.count - first);
      const size_t place = started % num_pieces * piece;
      const Values numbers = sums.numbers().subrange(place, count);
      copy_bytes(numbers.data, values.input + first * element, count * element);
      under_way.push_back({sums.start(place, count), first, count, numbers});
      ++started;
      continue;
    }
    const UnderWay& oldest = under_way.front();
    co_await Until(-1, [&] {
      sums.poll();
      return sums.done(oldest.ticket);
    });
    if (values.output != nullptr) {
      std::byte* const to = values.output + oldest.first * element;
      copy_bytes(to, oldest.place.data, oldest.count * element);
      if (average) {
        const DataType type = oldest.place.type;
        divide(type == DataType::Float16    ? DLFLOW_F16
               : type == DataType::BFloat16 ? DLFLOW_BF16
                                            : DLFLOW_F32,
               to, oldest.count, num_ranks);
      }
    }
    under_way.pop_front();
    ++finished;
  }
}

Task reduce_scatter_blocks(Link link, Reduction reduction, std::span<const std::byte> input,
                           std::vector<size_t> sizes, std::byte* output) {
  const size_t own = sizes[size_t(link.rank())];
  std::vector<std::byte> received(own * size_t(link.size()));
  co_await all_to_all(link, input, sizes, received, std::vector<size_t>(size_t(link.size()), own));
  std::vector<const std::byte*> blocks;
  for (int rank = 0; rank < link.size(); ++rank) {
    blocks.push_back(received.data() + size_t(rank) * own);
  }
  reduce_blocks(reduction.type, reduction.op, output, blocks, own / size_of(reduction.type));
}

Task reduce_in_pieces(Link link, Reduction reduction, Reduced values) {
  const size_t element = size_of(reduction.type), piece = kReducedBytes / element;
  std::vector<std::byte> result(std::min(piece, values.count) * element);
  for (size_t first = 0; first < values.count; first += piece) {
    const size_t count = std::min(piece, values.count - first);
    std::vector<size_t> sizes;
    size_t before = 0;
    for (size_t rank = 0, ranks = size_t(link.size()); rank < ranks; ++rank) {
      sizes.push_back((count * (rank + 1) / ranks - count * rank / ranks) * element);
      if (rank < size_t(link.rank())) before += sizes.back();
    }
    const std::span<const std::byte> input(values.input + first * element, count * element);
    co_await reduce_scatter_blocks(link, reduction, input, sizes, result.data() + before);
    const std::span<std::byte> all = std::span(result).first(count * element);
    co_await all_gather(link, all, std::move(sizes));
    if (values.output != nullptr)
      copy_bytes(values.output + first * element, all.data(), all.size());
  }
}

Task gather(Link link, std::span<const std::byte> input, std::byte* output, int root) {
  if (link.rank() != root) {
    co_await link.send(input, root);
    co_return;
  }
  Messages messages = link.messages();
  for (int rank = 0; rank < link.size(); ++rank) {
    std::byte* const block = output + size_t(rank) * input.size();
    if (rank == root) {
      copy_bytes(block, input.data(), input.size());
    } else {
      link.receive(messages, {block, input.size()}, rank);
    }
  }
  co_await messages;
}

Task scatter(Link link, const std::byte* input, std::span<std::byte> output, int root) {
  if (link.rank() != root) {
    co_await link.receive(output, root);
    co_return;
  }
  Messages messages = link.messages();
  for (int rank = 0; rank < link.size(); ++rank) {
    const std::byte* const block = input + size_t(rank) * output.size();
    if (rank == root) {
      copy_bytes(output.data(), block, output.size());
    } else {
      link.send(messages, {block, output.size()}, rank);
    }
  }
  co_await messages;
}

Task all_gather_blocks(Link link, std::span<const std::byte> input, std::span<std::byte> output,
                       std::vector<size_t> sizes) {
  const size_t before = std::accumulate(sizes.begin(), sizes.begin() + link.rank(), size_t(0));
  copy_bytes(output.data() + before, input.data(), input.size());
  co_await all_gather(link, output, std::move(sizes));
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
                    " ms have passed, and these ranks have not come: " + missing);
  }
  Messages answers = link.messages();
  for (int rank = 1; rank < link.size(); ++rank) link.send(answers, {}, rank);
  co_await answers;
}

}  // namespace dlflow::runtime
