#include "runtime/cooperation/local_sgd.h"

#include "runtime/cooperation/own_steps.h"

namespace dlflow::runtime {

LocalSgd::LocalSgd(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
                   Timeline& timeline)
    : every_(options.every),
      synchronous_epochs_(options.synchronous_epochs),
      comm_(comm),
      timeline_(timeline),
      averaging_(comm, rules) {}

Role LocalSgd::role() { return role_of_own_model(alone_.communicator(0), comm_); }

Meeting LocalSgd::advance(const Learner& learner, const Stretch& stretch) {
  const uint64_t every = stretch.epoch < synchronous_epochs_ ? 1 : every_;
  OwnSteps steps(comm_, learner.stepper);
  uint64_t done = stretch.done;
  do {
    steps.make();
    ++done;
  } while (done < stretch.limit && done % every != 0);
  const Timed timed(timeline_, Timeline::Row::Waiting, "average");
  return {done, averaging_.average(learner.own.state(), steps.report())};
}

}  // namespace dlflow::runtime
