// Three ways to move messages while a rank computes: not at all, by the rank itself between layers,
// or by a thread. See overlap.sh.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/timing.h"
#include "runtime/comm/mpi_communicator.h"

namespace {

using namespace dlflow::runtime;
using Clock = std::chrono::steady_clock;

constexpr size_t kLayers = 32, kLayerElements = 64 << 10;
constexpr auto kLayerTime = std::chrono::microseconds(400);

/// A layer's backward pass: keeps the core busy with additions in the first-level cache.
void compute_layer(size_t repeats) {
  static std::vector<float> values(1024, 1.0f);
  for (size_t i = 0; i < repeats; ++i) {
    for (float& value : values) value = value * 0.999f + 0.001f;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

/// The number of repeats that take kLayerTime, the best of several tries.
size_t repeats_of_layer() {
  constexpr size_t kTries = 50, kRepeats = 1000;
  Clock::duration best = Clock::duration::max();
  for (size_t i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    compute_layer(kRepeats);
    best = std::min(best, Clock::now() - start);
  }
  return size_t(double(kRepeats) * double(Clock::duration(kLayerTime).count()) /
                double(best.count()));
}

/// A step that adds each layer's gradients while it computes the layers before.
class Step {
 public:
  explicit Step(Communicator& comm)
      : allreduce_(comm, kLayers * kLayerElements,
                   {.rules = parse_rules("allreduce=recursive_doubling:0-max", "overlap")}),
        repeats_(repeats_of_layer()) {}

  std::span<float> values() { return allreduce_.values(); }

  void all_at_the_end() {
    for (size_t i = 0; i < kLayers; ++i) compute_layer(repeats_);
    for (size_t i = 0; i < kLayers; ++i) start(i);
    allreduce_.finish();
  }

  void polled_between_layers() {
    for (size_t i = 0; i < kLayers; ++i) {
      compute_layer(repeats_);
      start(i);
      allreduce_.poll();
    }
    allreduce_.finish();
  }

  void moved_by_a_thread() {
    std::mutex mutex;
    {
      const std::jthread mover([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const std::unique_lock lock(mutex);
          allreduce_.poll();
        }
      });
      for (size_t i = 0; i < kLayers; ++i) {
        compute_layer(repeats_);
        const std::unique_lock lock(mutex);
        start(i);
      }
    }
    allreduce_.finish();
  }

 private:
  void start(size_t layer) { allreduce_.start(layer * kLayerElements, kLayerElements); }

  Allreduce allreduce_;
  size_t repeats_;
};

void run() {
  MpiCommunicator comm(std::chrono::seconds(60));
  Step step(comm);
  std::vector<Contender> contenders = {
      {"all at the end", step.values(), [&] { step.all_at_the_end(); }},
      {"polled between layers", step.values(), [&] { step.polled_between_layers(); }},
      {"moved by a thread", step.values(), [&] { step.moved_by_a_thread(); }}};
  take_turns(comm, contenders, 5);
  if (comm.rank() != 0) return;
  std::printf("%d ranks of one thread on %u cores; %zu layers of %lld us and %zu KiB\n",
              comm.size(), std::thread::hardware_concurrency(), kLayers,
              static_cast<long long>(kLayerTime.count()), kLayerElements * sizeof(float) / 1024);
  for (const Contender& contender : contenders) {
    std::printf("%-22s %8.2f ms a step\n", contender.name.c_str(), contender.median() * 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    mpi.abort(1);
  }
  return 0;
}
