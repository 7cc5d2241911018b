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

/// How ranks that do not take every step together train one model: whose gradients form an update,
/// and when a rank receives the others' progress. P is the number of ranks.
namespace dlflow::runtime {

/// Access to a rank's training state, for ranks that step alone.
class OwnUpdates {
 public:
  virtual ~OwnUpdates() = default;

  /// This rank's requests to the others, beside its steps: to stop, to save.
  virtual StepReport wishes() = 0;

  /// The gradient of the last step, in the layout of the weights; only without Role::updates.
  virtual std::span<const float> gradient() = 0;

  /// The state that training changes: the weights, then each array of the optimizer, whose i-th
  /// number belongs to the i-th weight; an array may be shorter than the weights.
  virtual std::vector<std::span<float>> state() = 0;

  /// The number of leading weights of state() that updates change; statistics follow them.
  virtual size_t num_trained() = 0;

  /// Makes the update of the weights from number `first` on with `gradient`. Called by ranks that
  /// apply others' gradients.
  virtual void update(size_t first, std::span<const float> gradient, double rate) = 0;

  /// The number of updates that state() contains; set if other ranks made them.
  virtual uint64_t updates() = 0;
  virtual void set_updates(uint64_t updates) = 0;
};

/// One rank's part of the training, as a Cooperation uses it.
struct Learner {
  Stepper& stepper;
  OwnUpdates& own;
};

/// A rank's role in a step.
struct Role {
  /// The ranks that take each step together and sum their gradients. Lives as long as the
  /// cooperation.
  Communicator* team = nullptr;

  /// The number of teams that share the samples of a step, and this one's place among them.
  size_t num_teams = 1;
  size_t index = 0;

  bool computes = true;  ///< false: a server, which never takes a step
  bool updates = true;   ///< false: others make the update with this rank's gradient

  /// If true, the gradient is that of the mean loss over the team's samples; otherwise the loss is
  /// divided by the samples of all teams, so that the sum over teams is the gradient of the step.
  bool own_mean = false;
};

/// The training's progress: `done` steps of the run, in this epoch; the ranks must meet at `limit`
/// steps or earlier.
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

  /// Takes steps of `learner` until all ranks meet: at the limit, or soon after a rank's report
  /// calls for it. Collective, with the same `stretch`. Throws Error{Unavailable}, or the
  /// WatchError of a watch, if a rank does not answer.
  virtual Meeting advance(const Learner& learner, const Stretch& stretch) = 0;
};

/// Returns null if all ranks take every step together. `comm` and `timeline` must outlive the
/// result. `rules` are for sums over all ranks. Throws Error{InvalidInput} if these ranks cannot
/// cooperate this way. Collective.
std::unique_ptr<Cooperation> make_cooperation(const CooperationOptions& options, Communicator& comm,
                                              const RuleSet& rules, Timeline& timeline);

}  // namespace dlflow::runtime
