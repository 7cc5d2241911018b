#include "runtime/collectives/timing.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFewest = 5, kMost = 500;

/// A rank's summand. Sums are exact in every type: bf16 represents whole numbers up to 256.
int number_of(int rank, DataType type) { return is_half(type) && rank >= 16 ? 0 : rank + 1; }

/// Processes `values` in blocks that stay in the first-level cache, with room for as many floats.
template <typename Work>
void for_each_block(const Values& values, Work work) {
  std::array<float, 1024> room;
  for (size_t first = 0; first < values.count; first += room.size()) {
    const size_t count = std::min(room.size(), values.count - first);
    work(values.subrange(first, count), std::span(room).first(count));
  }
}

void fill(const Values& values, int number) {
  for_each_block(values, [&](const Values& block, std::span<float> numbers) {
    std::ranges::fill(numbers, float(number));
    convert(block, numbers);
  });
}

void check_sum(const Contender& contender, int sum) {
  for_each_block(contender.values, [&](const Values& block, std::span<float> numbers) {
    convert(numbers, block);
    const auto wrong = std::ranges::find_if(numbers, [&](float n) { return n != float(sum); });
    if (wrong == numbers.end()) return;
    throw Error(Errc::Corrupt, contender.name + " returned " + std::to_string(*wrong) +
                                   ", but the sum is " + std::to_string(float(sum)));
  });
}

void run_once(Communicator& comm, Contender& contender) {
  const DataType type = contender.values.type;
  fill(contender.values, number_of(comm.rank(), type));
  comm.barrier();
  const auto start = Clock::now();
  contender.sum();
  contender.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  int sum = 0;
  for (int rank = 0; rank < comm.size(); ++rank) sum += number_of(rank, type);
  check_sum(contender, sum);
}

/// Replaces the time of each call by that of the slowest rank: a late rank finds its peers'
/// messages waiting.
void take_slowest_ranks(Communicator& comm, std::vector<double>& seconds) {
  const size_t calls = seconds.size(), ranks = size_t(comm.size());
  std::vector<double> all(calls * ranks);
  std::ranges::copy(seconds, all.begin() + long(calls * size_t(comm.rank())));
  run(comm, all_gather(Link(comm), std::as_writable_bytes(std::span(all)),
                       std::vector(ranks, calls * sizeof(double))));
  for (size_t i = 0; const double time : all) {
    double& slowest = seconds[i++ % calls];
    slowest = std::max(slowest, time);
  }
}

}  // namespace

double Contender::quantile(double part) const {
  std::vector<double> sorted = seconds;
  const auto place = sorted.begin() + long(double(sorted.size()) * part);
  std::ranges::nth_element(sorted, place);
  return *place;
}

void take_turns(Communicator& comm, std::span<Contender> contenders, double seconds_each) {
  double slowest = 0;
  for (Contender& contender : contenders) {
    run_once(comm, contender);
    take_slowest_ranks(comm, contender.seconds);
    slowest = std::max(slowest, contender.seconds.back());
    contender.seconds.clear();  // the first call touches memory and opens connections
  }
  const int calls = int(std::clamp(seconds_each / slowest, kFewest, kMost));
  for (int call = 0; call < calls; ++call) {
    for (Contender& contender : contenders) run_once(comm, contender);
  }
  for (Contender& contender : contenders) take_slowest_ranks(comm, contender.seconds);
}

}  // namespace dlflow::runtime
