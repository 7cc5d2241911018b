#pragma once

#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

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
class LocalSgd : public Cooperation {
 public:
  LocalSgd(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
           Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  uint64_t every_, synchronous_epochs_;
  Communicator& comm_;
  Timeline& timeline_;
  ThreadGroup alone_{1};
  Averaging averaging_;
};

}  // namespace dlflow::runtime
