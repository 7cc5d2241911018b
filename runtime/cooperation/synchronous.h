#pragma once

#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// All ranks take every step together: their gradients are summed while the backward pass runs
/// (runtime/reduce/reducer.h), and every rank makes the same update. Centralised in that there is
/// one model with one optimizer; synchronous. The sum may go on into the next step: whoever looks
/// at the weights waits for them.
class Synchronous : public Cooperation {
 public:
  explicit Synchronous(Communicator& comm) : comm_(comm) {}

  Role role() override { return {.team = &comm_, .team_is_all = true}; }

  /// One step. Its report is the ranks' sum already: it travelled with the gradients.
  Meeting advance(const Learner& learner, const Stretch& stretch) override {
    return {stretch.done + 1, learner.stepper.step().report};
  }

 private:
  Communicator& comm_;
};

}  // namespace dlflow::runtime
