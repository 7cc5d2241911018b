#pragma once

#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// Every rank trains a model of its own on its share of the samples; after each `every` steps all
/// of them are replaced by their mean. Decentralised, staleness bounded by `every`.
///
/// The optimizer's state is averaged like weights and running statistics: what ranks have after a
/// meeting is then one state, from which any number of ranks goes on; and as weights and momentum
/// are linear in the gradient, `every` 1 is synchronous SGD up to rounding. It doubles the bytes.
/// Ranks stop, save and find a NaN at meetings alone, so that a run that was stopped and goes on
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
