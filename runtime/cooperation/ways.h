#pragma once

#include <memory>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

/// The ways to cooperate, one per source file, and what they have in common.
namespace dlflow::runtime {

/// The arguments of make_cooperation(), for these ranks.
struct WaySetup {
  const CooperationOptions& options;
  Communicator& comm;
  const RuleSet& rules;
  Timeline& timeline;
};

std::unique_ptr<Cooperation> make_local_sgd(const WaySetup& setup);
std::unique_ptr<Cooperation> make_elastic(const WaySetup& setup);
std::unique_ptr<Cooperation> make_gossip(const WaySetup& setup);
std::unique_ptr<Cooperation> make_pairwise(const WaySetup& setup);
std::unique_ptr<Cooperation> make_parameter_servers(const WaySetup& setup);

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

/// Every rank trains its own model on its share of the samples.
class OwnModels : public Cooperation {
 public:
  explicit OwnModels(const WaySetup& setup)
      : options_(setup.options),
        comm_(setup.comm),
        timeline_(setup.timeline),
        averaging_(setup.comm, setup.rules) {}

  Role role() override {
    return {.team = &alone_.communicator(0),
            .num_teams = size_t(comm_.size()),
            .index = size_t(comm_.rank()),
            .own_mean = true};
  }

 protected:
  /// Averaging::average() at a meeting.
  StepReport average(std::span<const std::span<float>> state, const StepReport& mine) {
    const Timed timed(timeline_, Timeline::Row::Waiting, "average");
    return averaging_.average(state, mine);
  }

  const CooperationOptions options_;
  Communicator& comm_;
  Timeline& timeline_;

 private:
  ThreadGroup alone_{1};
  Averaging averaging_;
};

}  // namespace dlflow::runtime
