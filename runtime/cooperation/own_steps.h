#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// The role of a rank of `comm` that trains its own model; `alone` contains only this rank.
inline Role role_of_own_model(Communicator& alone, const Communicator& comm) {
  return {.team = &alone,
          .num_teams = size_t(comm.size()),
          .index = size_t(comm.rank()),
          .own_mean = true};
}

/// The steps that a rank takes alone between meetings.
class OwnSteps {
 public:
  /// Both must outlive this.
  OwnSteps(const Communicator& comm, Stepper& stepper) : comm_(comm), stepper_(stepper) {}

  /// Takes one step. Throws the watch's WatchError, as a step itself makes no collective calls.
  OwnStep make() {
    if (comm_.lifeline()) comm_.lifeline()->check();
    const OwnStep own = stepper_.step();
    report_ = {report_.loss + own.report.loss, own.report.stops, own.report.saves};
    return own;
  }

  /// The sum of the steps' losses, not finite if one was not; otherwise the last step's report.
  const StepReport& report() const { return report_; }

 private:
  const Communicator& comm_;
  Stepper& stepper_;
  StepReport report_;
};

}  // namespace dlflow::runtime
