#include <algorithm>

#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/timing.h"
#include "runtime/train/profile.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kSmallestSum = size_t{1} << 10, kLargestSum = size_t{16} << 20;
constexpr double kSecondsEachSum = 0.1;

/// The options of a step of `job`: fewer algorithms can compute exact sums.
AllreduceOptions sums_of(const TrainingJob& job, int ranks) {
  if (!job.settings.precision.exact) {
    return {.wire = job.settings.gradients.wire, .rules = job.rules};
  }
  const size_t leaves = std::max(num_leaves(job.settings, ranks), size_t(ranks));
  return {.order = sum_in_leaf_order(leaves, ranks), .rules = job.rules};
}

}  // namespace

Json profile_network(Communicator& comm, const TrainingJob& job) {
  Json measured = Json::array();
  if (comm.size() == 1) return measured;
  const AllreduceOptions options = sums_of(job, comm.size());
  const AllreducePlan plan(comm, options);
  Allreduce allreduce(comm, kLargestSum / sizeof(float), options);
  for (size_t bytes = kSmallestSum; bytes <= kLargestSum; bytes *= 4) {
    const size_t count = bytes / sizeof(float);
    Contender sum{"the all-reduce of a training", allreduce.values().first(count), [&] {
                    allreduce.start(0, count);
                    allreduce.finish();
                  }};
    take_turns(comm, {&sum, 1}, kSecondsEachSum);
    measured.push_back({{"ranks", comm.size()},
                        {"nodes", plan.topology().nodes.size()},
                        {"algorithm", name(plan.over_all(bytes))},
                        {"bytes", bytes},
                        {"seconds", sum.median()}});
  }
  return measured;
}

}  // namespace dlflow::runtime
