// The layer norms that LARS and LAMB need, computed by every rank or shared among ranks. See
// layer_norms.sh.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/train/whole_update.h"

namespace {

using namespace dlflow::runtime;
using Clock = std::chrono::steady_clock;

constexpr int kTries = 15;

/// ResNet-50's: 161 tensors, 25.6 million numbers.
std::vector<LayerSlot> resnet50() {
  std::vector<LayerSlot> layers;
  size_t first = 0;
  const auto add = [&](size_t count, bool is_vector) {
    const size_t slot = (count + 15) / 16 * 16;
    layers.push_back({first, slot, is_vector});
    first += slot;
  };
  const auto convolution = [&](size_t in, size_t out, size_t kernel) {
    add(in * out * kernel * kernel, false);
    add(out, true);
    add(out, true);
  };
  convolution(3, 64, 7);
  const size_t depths[] = {3, 4, 6, 3};
  size_t in = 64;
  for (size_t stage = 0; stage < 4; ++stage) {
    const size_t width = size_t(64) << stage;
    for (size_t block = 0; block < depths[stage]; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  add(2048 * 1000, false);
  add(1000, true);
  return layers;
}

/// The time of the slowest rank in milliseconds, the best of several tries.
template <typename Work>
double time_of(Communicator& comm, Work work) {
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    comm.barrier();
    const auto start = Clock::now();
    work();
    comm.barrier();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return best;
}

/// Weights, gradients and LAMB's state.
struct Buffers {
  explicit Buffers(std::span<float> memory) {
    const size_t size = memory.size() / 4;
    trained.weights = memory.first(size);
    trained.state = {memory.subspan(size, size), memory.subspan(2 * size, size)};
    gradients = memory.last(size);
    std::ranges::fill(trained.weights, 0.5f);
    std::ranges::fill(gradients, 0.1f);
  }
  TrainedBuffers trained;
  std::span<float> gradients;
};

double time_update(Communicator& comm, Communicator& sharers, const std::vector<LayerSlot>& layers,
                   Buffers& buffers, StateSharing sharing) {
  const auto lamb = make_optimizer({.kind = OptimizerOptions::Kind::Lamb, .weight_decay = 0.01});
  WholeUpdate update(sharers, *lamb, layers, {}, sharing);
  lamb->begin_step(0.001, 1);
  return time_of(comm, [&] { (void)update.apply(buffers.gradients, buffers.trained); });
}

void measure(Communicator& comm) {
  const std::vector<LayerSlot> layers = resnet50();
  const size_t size = layers.back().first + layers.back().count;
  ThreadGroup myself(1);
  Communicator& alone = myself.communicator(0);

  std::vector<float> memory(4 * size);
  Buffers own(memory);
  const auto parts =
      comm.allocate_shared(comm.node_rank() == 0 ? memory.size() * sizeof(float) : 0);
  Buffers common({reinterpret_cast<float*>(parts[0]), memory.size()});

  const auto norms = [&](Communicator& sharers) {
    const LayerNorms shared(sharers, layers);
    return time_of(comm, [&] { (void)shared.of({own.trained.weights, own.gradients}); });
  };
  const double all_norms = norms(alone), shared_norms = norms(comm);
  const double all = time_update(comm, alone, layers, own, StateSharing::Replicas);
  const double replicas = time_update(comm, comm, layers, own, StateSharing::Replicas);
  const double one_copy = time_update(comm, comm, layers, common, StateSharing::OneCopy);
  if (comm.rank() != 0) return;
  std::printf("%d ranks, %zu layers, %.1f million weights; ms, the best of %d\n", comm.size(),
              layers.size(), double(size) / 1e6, kTries);
  std::printf("  norms of weights and gradients   every rank all %7.2f   shared out %7.2f  %.2fx\n",
              all_norms, shared_norms, all_norms / shared_norms);
  std::printf("  update by LAMB                   every rank all %7.2f\n", all);
  std::printf("    norms shared out (replicas)                           %7.2f  %.2fx\n", replicas,
              all / replicas);
  std::printf("    all shared out (one copy on the node)                 %7.2f  %.2fx\n", one_copy,
              all / one_copy);
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  try {
    MpiCommunicator comm(std::chrono::seconds(60));
    measure(comm);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    mpi.abort(1);
  }
  return 0;
}
