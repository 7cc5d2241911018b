#include "runtime/cooperation/elastic.h"

#include <algorithm>

#include "runtime/cooperation/own_steps.h"

namespace dlflow::runtime {

Elastic::Elastic(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
                 Timeline& timeline)
    : every_(options.every),
      rate_(float(options.rate)),
      comm_(comm),
      timeline_(timeline),
      exchanges_(comm, rules),
      meetings_(comm, rules) {}

Role Elastic::role() { return role_of_own_model(alone_.communicator(0), comm_); }

Meeting Elastic::advance(const Learner& learner, const Stretch& stretch) {
  const std::vector<std::span<float>> state = learner.own.state();
  const std::span<float> weights = state.front();
  center_.assign(weights.begin(), weights.end());  // all ranks have the same weights here
  uint64_t done = stretch.done;
  StepReport report;
  do {
    OwnSteps steps(comm_, learner.stepper);
    do {
      steps.make();
      ++done;
    } while (done < stretch.limit && done % every_ != 0);
    report = exchange(weights, steps.report());
  } while (done < stretch.limit && !report.calls_for_meeting());
  std::ranges::copy(center_, weights.begin());
  const Timed timed(timeline_, Timeline::Row::Waiting, "average");
  meetings_.average(std::span(state).subspan(1), {});
  return {done, report};
}

StepReport Elastic::exchange(std::span<float> weights, const StepReport& mine) {
  const Timed timed(timeline_, Timeline::Row::Waiting, "exchange");
  mean_.assign(weights.begin(), weights.end());
  const std::vector<std::span<float>> parts = {mean_};
  const StepReport report = exchanges_.average(parts, mine);
  const float own_rate = rate_ / float(comm_.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] -= own_rate * (weights[i] - center_[i]);
    center_[i] += rate_ * (mean_[i] - center_[i]);
  }
  return report;
}

}  // namespace dlflow::runtime
