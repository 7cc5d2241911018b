#include "runtime/train/step_plan.h"

namespace dlflow::runtime {
namespace {

size_t own_samples(const LocalBatch& batch) {
  size_t samples = 0;
  for (const Leaf& leaf : batch.leaves) samples += leaf.count();
  return samples;
}

}  // namespace

/// With `own_mean`, a rank's rate is weighted by its share of the samples.
StepPlan StepPlanner::plan(const LocalBatch& batch) const {
  StepPlan plan;
  plan.epoch = batch.epoch;
  plan.step = batch.epoch * steps_per_epoch + batch.step;
  plan.all_samples = batch.global_samples;
  plan.own_samples = own_samples(batch);
  plan.samples = own_mean ? plan.own_samples : plan.all_samples;
  plan.weight = own_mean ? plan.own_samples : batch.global_weight();
  plan.tokens = batch.global_tokens;
  plan.learning_rate = learning_rate(schedule, plan.step);
  plan.rate_among_ranks =
      own_mean ? plan.learning_rate * (double(plan.own_samples) / double(plan.all_samples))
               : plan.learning_rate;
  return plan;
}

}  // namespace dlflow::runtime
