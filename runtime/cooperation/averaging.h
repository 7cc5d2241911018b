#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/collectives/allreduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// Averages the ranks' states.
class Averaging {
 public:
  /// `comm` must outlive this.
  Averaging(Communicator& comm, RuleSet rules) : comm_(comm), rules_(std::move(rules)) {}

  /// Replaces every number of `state` by its mean over the ranks, rounded once, with the same bits
  /// on all. Returns the reports' sum. Collective; the same sizes on all ranks, in every call.
  ///
  /// Cost: an all-reduce of the state's bytes, by the rules.
  StepReport average(std::span<const std::span<float>> state, const StepReport& mine);

 private:
  Communicator& comm_;
  RuleSet rules_;
  std::optional<Allreduce> sum_;  // of the state and a report; created by the first call
};

}  // namespace dlflow::runtime
