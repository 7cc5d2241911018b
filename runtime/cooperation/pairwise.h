#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/agreement.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// Every rank trains its own model on its share of the samples. After each `every` steps an even
/// rank averages its weights with those of one odd rank, each odd rank in turn, and neither waits:
/// the even rank sends its weights s and goes on. Between two of its steps the odd one moves its
/// own weights x by d = (s - x) / 2 and sends d back; the even one moves by -d, from its weights at
/// that time. So the sum over the ranks is preserved, however late an answer is, and ranks that ask
/// cannot wait for each other in a cycle. Decentralised and asynchronous: ranks wait for a slow
/// rank only at meetings.
///
/// Only trained weights are exchanged. At meetings they, running statistics and the optimizer's
/// state are replaced by their mean; all ranks agree on the step (agreement.h).
///
/// Cost of an exchange of n bytes of weights: one message of n bytes each way; messages move
/// between steps. Memory of an even rank: 2 n; of an odd one: n for each concurrent asker.
/// Source: AD-PSGD, Lian et al., arXiv 1710.06952; here an answer may be late.
class Pairwise : public Cooperation {
 public:
  Pairwise(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
           Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  bool asks() const { return comm_.rank() % 2 == 0; }
  void begin(const Stretch& stretch, std::span<float> weights);

  /// Asks the next odd rank, unless the last answer is still pending.
  void ask(std::span<float> weights);
  void ask_no_more();

  /// Moves messages and never waits. Returns whether something moved.
  bool look(Agreement::RankStatus status);
  bool over() const { return agreement_.over() && open_.empty(); }

  uint64_t every_;
  Communicator& comm_;
  Link link_;
  Agreement agreement_;
  Timeline& timeline_;
  ThreadGroup alone_{1};
  Averaging averaging_;
  std::vector<Task> open_;  // even rank: its request; odd rank: its answers to each even rank
  uint64_t asked_ = 0;      // number of requests
  bool asks_no_more_ = false;
};

}  // namespace dlflow::runtime
