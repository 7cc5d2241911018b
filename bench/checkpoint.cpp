#include <fmt/core.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/remove_tree.h"
#include "base/units.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/network_set.h"

/// The cost of a checkpoint for training, written by the rank itself or by a concurrent thread.
/// Usage: checkpoint FOLDER [SIZE], of weights and momenta together; 1GiB by default.
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kRounds = 5, kTrainingRounds = 3;
constexpr uint64_t kLayerBytes = 2 * 4 * 4096 * 4096;  // weights and momenta

/// Linear layers of 4096 x 4096.
Model model_of(uint64_t bytes) {
  std::string text = "name: bench\ninput: [4096]\nlayers:\n";
  for (uint64_t i = 0; i < std::max<uint64_t>(1, bytes / kLayerBytes); ++i) {
    text += "  - linear: {features: 4096}\n";
  }
  return parse_model(text, "bench.yaml");
}

struct Median {
  double middle = 0, least = 0, most = 0;
};

Median median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

double seconds_of(const auto& work) {
  const auto begin = Clock::now();
  work();
  return Seconds(Clock::now() - begin).count();
}

/// A training step on one core: multiplications that fit into its cache.
void compute() {
  constexpr size_t kSize = 1 << 13;
  thread_local std::vector<float> values(kSize, 1.0f);
  for (int sweep = 0; sweep < 4000; ++sweep) {
    for (float& value : values) value = value * 0.999f + 0.001f;
  }
}

/// Runs `steps` such steps on `ranks` threads with a barrier before each step, like synchronous
/// training. The first thread calls `before_first` while the others wait.
void train(int ranks, int steps, const std::function<void()>& before_first) {
  std::barrier together(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == 0) before_first();
      for (int step = 0; step < steps; ++step) {
        together.arrive_and_wait();
        compute();
      }
    });
  }
}

class Bench {
 public:
  Bench(fs::path folder, const Model& model)
      : folder_(std::move(folder)),
        networks_(model, 1, Network::Mode::Training),
        weights_(networks_.layout()->size()),
        momenta_(networks_.layout()->trainable_size()),
        alone_(1),
        checkpoints_(alone_.communicator(0), folder_, {CheckpointPolicy::Unit::Steps, 1, 1},
                     *networks_.layout()) {
    initialise(*networks_.layout(), 1, weights_.floats());
  }

  uint64_t bytes() const { return 4 * (weights_.size() + momenta_.size()); }

  /// The calling thread does everything, including the copy, as before there was a writer thread.
  double in_foreground() {
    return seconds_of([&] {
      StateSnapshot copy(*networks_.layout());
      take(copy);
      copy.write(folder_, 1);
    });
  }

  /// The time for which save() blocks its caller if the previous checkpoint is written.
  double begin() {
    return seconds_of(
        [&] { checkpoints_.save({}, info(), weights_.floats(), optimizer(), unsent(), false); });
  }

  double finish() {
    return seconds_of([&] { checkpoints_.finish(); });
  }

 private:
  CheckpointInfo info() {
    CheckpointInfo info;
    info.step = ++step_;
    return info;
  }
  ModelState::OptimizerContent optimizer() { return {{{"", momenta_.floats()}}, {}}; }
  CompressionState unsent() {
    return CompressionState(alone_.communicator(0), *networks_.layout(), nullptr);
  }
  void take(StateSnapshot& copy) {
    copy.take({}, info(), weights_.floats(), optimizer(), unsent());
  }

  fs::path folder_;
  NetworkSet networks_;
  HugeBuffer weights_, momenta_;
  ThreadGroup alone_;
  Checkpoints checkpoints_;
  uint64_t step_ = 0;
};

void print(const char* what, const std::vector<double>& seconds, double foreground) {
  const Median m = median_of(seconds);
  fmt::print("{:58} {:8.3f} s ({:.3f}-{:.3f}) {:8.1f} %\n", what, m.middle, m.least, m.most,
             100 * m.middle / foreground);
  std::fflush(stdout);
}

/// CPU time of this process.
double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The time that a checkpoint adds to a training that runs for twice as long as the writing takes.
std::vector<double> longer_by(Bench& bench, int ranks, double foreground) {
  const double step = seconds_of([&] { train(ranks, 20, [] {}); }) / 20;
  const int steps = int(2 * foreground / step) + 1;
  std::vector<double> seconds;
  for (int round = 0; round < kTrainingRounds; ++round) {
    const double without = seconds_of([&] { train(ranks, steps, [] {}); });
    const double with = seconds_of([&] { train(ranks, steps, [&] { bench.begin(); }); });
    bench.finish();
    seconds.push_back(with - without);
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: checkpoint FOLDER [SIZE]\n");
    return 2;
  }
  omp_set_num_threads(1);
  Bench bench(fs::path(argv[1]) / "checkpoints",
              model_of(parse_size(argc == 3 ? argv[2] : "1GiB")));
  fmt::print("state of {}: medians (least to most), part of the first line\n",
             format_size(bench.bytes()));
  std::vector<double> foreground, begin, rest, processor;
  for (int round = 0; round < kRounds; ++round) foreground.push_back(bench.in_foreground());
  bench.begin();  // allocates the copy, which is kept
  bench.finish();
  for (int round = 0; round < kRounds; ++round) {
    begin.push_back(bench.begin());
    const double before = processor_seconds();
    rest.push_back(bench.finish());
    processor.push_back(processor_seconds() - before);
  }
  const double whole = median_of(foreground).middle;
  print("written by the rank itself", foreground, whole);
  print("written by a thread: the rank stands still for", begin, whole);
  print("  the thread writes, where nobody computes, for", rest, whole);
  print("  of that it computes", processor, whole);
  const int cores = int(std::thread::hardware_concurrency());
  if (cores > 1) {
    print("  training is longer by, with a core to spare", longer_by(bench, cores - 1, whole),
          whole);
  }
  print("  training is longer by, with a rank on every core", longer_by(bench, cores, whole),
        whole);
}
