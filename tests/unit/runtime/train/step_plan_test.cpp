#include "runtime/train/step_plan.h"

#include <array>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

constexpr uint64_t kStepsPerEpoch = 10;
const Schedule kSchedule = {.peak_rate = 0.5, .warmup_steps = 100};

/// This rank's share of a step: leaves of 5 and 3 samples, of 32 in all.
class Step {
 public:
  Step() {
    leaves_[0].labels = std::span(labels_).first(5);
    leaves_[1].labels = std::span(labels_).last(3);
  }

  LocalBatch batch(size_t own_leaves = 2) const {
    return {std::span(leaves_).first(own_leaves), 32, /*epoch=*/2, /*step=*/3};
  }

 private:
  std::array<uint32_t, 8> labels_{};
  std::array<Leaf, 2> leaves_;
};

StepPlan plan(const LocalBatch& batch, bool own_mean) {
  return StepPlanner{own_mean, kStepsPerEpoch, kSchedule}.plan(batch);
}

}  // namespace

TEST_CASE("a step of all ranks follows the mean over all samples", "[step]") {
  const StepPlan plan = ::plan(Step().batch(), false);
  CHECK(plan.epoch == 2);
  CHECK(plan.step == 23);
  CHECK(plan.all_samples == 32);
  CHECK(plan.own_samples == 8);
  CHECK(plan.samples == 32);
  CHECK(plan.learning_rate == learning_rate(kSchedule, 23));
  CHECK(plan.rate_among_ranks == plan.learning_rate);
}

TEST_CASE("a step on texts is divided by the number of predicted tokens", "[step_plan][texts]") {
  LocalBatch batch;
  batch.global_samples = 4;
  const StepPlanner planner{false, 10, kSchedule};
  CHECK(planner.plan(batch).weight == 4);
  batch.global_tokens = 30;
  CHECK(planner.plan(batch).weight == 26);
  CHECK(planner.plan(batch).tokens == 30);
}

TEST_CASE("a rank with a local mean is weighted by its share of the samples", "[step]") {
  const StepPlan plan = ::plan(Step().batch(), true);
  CHECK(plan.samples == 8);
  CHECK(plan.learning_rate == learning_rate(kSchedule, 23));
  CHECK(plan.rate_among_ranks == plan.learning_rate / 4);
}

TEST_CASE("a rank without samples of its own skips the step, and others go on", "[step]") {
  CHECK(plan(Step().batch(0), true).samples == 0);
  CHECK(plan(Step().batch(0), true).rate_among_ranks == 0);
  CHECK(plan(Step().batch(0), false).samples == 32);
}
