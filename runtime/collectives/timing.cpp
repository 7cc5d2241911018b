#include "runtime/collectives/timing.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "runtime/collectives/all_gather.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFewest = 5, kMost = 500;

void run_once(Communicator& comm, Contender& contender) {
  std::ranges::fill(contender.values, float(comm.rank() + 1));
  comm.barrier();
  const auto start = Clock::now();
  contender.sum();
  contender.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  const float expected = float(comm.size() * (comm.size() + 1) / 2);
  for (const float value : contender.values) {
    if (value == expected) continue;
    throw Error(Errc::Corrupt, contender.name + " gave " + std::to_string(value) + " where " +
                                   std::to_string(expected) + " is the sum");
  }
}

/// Of each call the time of the rank that it took longest: one that came late finds its peers'
/// messages waiting.
void take_slowest_ranks(Communicator& comm, std::vector<double>& seconds) {
  const size_t calls = seconds.size(), ranks = size_t(comm.size());
  std::vector<double> all(calls * ranks);
  std::ranges::copy(seconds, all.begin() + long(calls * size_t(comm.rank())));
  run(comm, all_gather(Link(comm), std::as_writable_bytes(std::span(all)),
                       std::vector(ranks, calls * sizeof(double))));
  for (size_t i = 0; i < all.size(); ++i) {
    seconds[i % calls] = std::max(seconds[i % calls], all[i]);
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
