#include <algorithm>
#include <vector>

#include "runtime/cooperation/ways.h"

namespace dlflow::runtime {
namespace {

/// Elastic averaging: every rank trains its own model on its share of the samples, and all have a
/// copy of one center. After each `every` steps a rank's weights x and the center c move towards
/// each other with the same force: x -= a (x - c), c += a sum(x - c), with a = rate / P, so that
/// the center follows the mean of the ranks at `rate`. Ranks may diverge more than with LocalSgd,
/// and each explores. Decentralised, staleness bounded by `every`.
///
/// Ranks stop, save or end an epoch only after an exchange; then all get the center, and the mean
/// of the optimizer's states. A run that was stopped within an epoch and resumed ends with
/// different bits.
/// Source: Zhang, Choromanska and LeCun, arXiv 1412.6651 (synchronous EASGD; beta is `rate`).
class Elastic final : public OwnModels {
 public:
  explicit Elastic(const WaySetup& setup)
      : OwnModels(setup), rate_(float(setup.options.rate)), exchanges_(setup.comm, setup.rules) {}

  Meeting advance(const Learner& learner, const Stretch& stretch) override {
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
      } while (done < stretch.limit && done % options_.every != 0);
      report = exchange(weights, steps.report());
    } while (done < stretch.limit && !report.calls_for_meeting());
    std::ranges::copy(center_, weights.begin());
    average(std::span(state).subspan(1), {});
    return {done, report};
  }

 private:
  /// Moves `weights` and the center towards each other. Returns the sum of the reports.
  StepReport exchange(std::span<float> weights, const StepReport& mine) {
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

  float rate_;
  Averaging exchanges_;
  std::vector<float> center_, mean_;
};

}  // namespace

std::unique_ptr<Cooperation> make_elastic(const WaySetup& setup) {
  return std::make_unique<Elastic>(setup);
}

}  // namespace dlflow::runtime
