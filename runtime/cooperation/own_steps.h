#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// The role of a rank of `comm` that trains a model of its own; `alone` has this rank alone.
inline Role role_of_own_model(Communicator& alone, const Communicator& comm) {
  return {.team = &alone,
          .num_teams = size_t(comm.size()),
          .index = size_t(comm.rank()),
          .own_mean = true};
}

/// Steps that a rank makes by itself from one meeting to the next.
class OwnSteps {
 public:
  /// Both must outlive this.
  OwnSteps(const Communicator& comm, Stepper& stepper) : comm_(comm), stepper_(stepper) {}

  /// One more. Throws the WatchError that ends all ranks: nobody is asked anything in a step.
  OwnStep make() {
    if (comm_.lifeline()) comm_.lifeline()->check();
    const OwnStep own = stepper_.step();
    report_ = {report_.loss + own.report.loss, own.report.stops, own.report.saves};
    return own;
  }

  /// The sum of their losses, which is not finite if one was not; else what the last one says.
  const StepReport& report() const { return report_; }

 private:
  const Communicator& comm_;
  Stepper& stepper_;
  StepReport report_;
};

}  // namespace dlflow::runtime
