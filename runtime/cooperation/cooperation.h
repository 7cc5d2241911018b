#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"
#include "runtime/cooperation/options.h"
#include "runtime/cooperation/step.h"
#include "runtime/timeline/timeline.h"

/// How ranks that do not take every step together train one model: whose gradients make an update,
/// and when a rank sees what the others have learnt. P is the number of ranks.
namespace dlflow::runtime {

/// Exchange between ranks that step alone: of their state, or the gradient with which others change
/// it.
class OwnUpdates {
 public:
  virtual ~OwnUpdates() = default;

  /// This rank's requests to the others, beside its steps: to stop, to save.
  virtual StepReport wishes() = 0;

  /// That of the last step, in the layout of the weights; only without Role::updates.
  virtual std::span<const float> gradient() = 0;

  /// The state that training changes: the weights, then each array of the optimizer's, whose i-th
  /// number belongs to the i-th weight; there may be fewer than weights.
  virtual std::vector<std::span<float>> state() = 0;

  /// The first weights of state(), which updates change; statistics are behind them.
  virtual size_t num_trained() = 0;

  /// The weights from number `first` on make a step down `gradient`. For those who make updates
  /// with the gradients of others.
  virtual void update(size_t first, std::span<const float> gradient, double rate) = 0;

  /// Number of updates that state() has seen; set where others made them.
  virtual uint64_t updates() = 0;
  virtual void set_updates(uint64_t updates) = 0;
};

/// One rank's part of the training, as a way to cooperate sees it.
struct Learner {
  Stepper& stepper;
  OwnUpdates& own;
};

/// The part of a rank in a step.
struct Role {
  /// The ranks that take each step together, their gradients summed. Lives as long as the
  /// cooperation.
  Communicator* team = nullptr;

  /// The samples of a step are shared out among so many teams; this one's place among them.
  size_t num_teams = 1;
  size_t index = 0;

  bool computes = true;  ///< false: a server, which never makes a step
  bool updates = true;   ///< false: others make the update with this rank's gradient

  /// The gradient is that of the mean loss over the team's samples; else over those of all teams,
  /// so that the sum over teams is the gradient of the step.
  bool own_mean = false;
};

/// Where training is: `done` steps of the run, in this epoch; the ranks are to be together again at
/// `limit` steps, or before.
struct Stretch {
  uint64_t epoch = 0;
  uint64_t done = 0;
  uint64_t limit = 0;
};

/// A way to cooperate. Implementations: LocalSgd, Elastic, ParameterServers, Gossip,
/// Pairwise.
class Cooperation {
 public:
  virtual ~Cooperation() = default;

  virtual Role role() = 0;

  /// Makes steps of `learner` until all ranks are together. They come together at the limit; and
  /// soon after the report of one calls for it. Collective, with the same `stretch`.
  /// Throws Error{Unavailable}, or the WatchError of a watch, if a rank does not answer.
  virtual Meeting advance(const Learner& learner, const Stretch& stretch) = 0;
};

/// Null where all ranks take every step together. `comm` and `timeline` must outlive the result.
/// `rules` are for sums over all ranks.
/// Throws Error{InvalidInput} if these ranks cannot cooperate so. Collective.
std::unique_ptr<Cooperation> make_cooperation(const CooperationOptions& options, Communicator& comm,
                                              const RuleSet& rules, Timeline& timeline);

}  // namespace dlflow::runtime
