#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

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
class Elastic : public Cooperation {
 public:
  Elastic(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
          Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  /// Moves `weights` and the center towards each other. Returns the sum of the reports.
  StepReport exchange(std::span<float> weights, const StepReport& mine);

  uint64_t every_;
  float rate_;
  Communicator& comm_;
  Timeline& timeline_;
  ThreadGroup alone_{1};
  Averaging exchanges_, meetings_;
  std::vector<float> center_, mean_;
};

}  // namespace dlflow::runtime
