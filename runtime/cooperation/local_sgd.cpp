#include "runtime/cooperation/ways.h"

namespace dlflow::runtime {
namespace {

/// Every rank trains its own model on its share of the samples; after each `every` steps all models
/// are replaced by their mean. Decentralised, staleness bounded by `every`.
///
/// The optimizer's state is averaged like weights and running statistics: after a meeting all ranks
/// have one state, from which any number of ranks can continue; and as weights and momentum are
/// linear in the gradient, `every` 1 is synchronous SGD up to rounding. This doubles the bytes.
/// Ranks stop, save and detect a NaN only at meetings, so that a run that was stopped and resumed
/// ends with the same bits.
/// Source: Stich, arXiv 1805.09767; `synchronous_epochs`: post-local SGD, Lin et al., arXiv
/// 1808.07217; averaged momentum: Yu, Jin and Yang, arXiv 1905.03817.
class LocalSgd final : public OwnModels {
 public:
  using OwnModels::OwnModels;

  Meeting advance(const Learner& learner, const Stretch& stretch) override {
    const uint64_t every = stretch.epoch < options_.synchronous_epochs ? 1 : options_.every;
    OwnSteps steps(comm_, learner.stepper);
    uint64_t done = stretch.done;
    do {
      steps.make();
      ++done;
    } while (done < stretch.limit && done % every != 0);
    return {done, average(learner.own.state(), steps.report())};
  }
};

}  // namespace

std::unique_ptr<Cooperation> make_local_sgd(const WaySetup& setup) {
  return std::make_unique<LocalSgd>(setup);
}

}  // namespace dlflow::runtime
