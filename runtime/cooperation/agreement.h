#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// The step after which ranks that step at their own pace meet.
///
/// A small sum over all ranks goes round beside the steps, again and again: the steps of each rank,
/// whether a rank calls for a meeting, and how many have arrived at it. All ranks see the same sums
/// in the same order, and conclude the same from each. After a call no rank begins a step; the next
/// sum has the steps of each, and the ranks meet where the furthest one is. The sum in which all
/// have arrived is the last one.
///
/// Cost of a sum: 2 lg P messages of P + 2 numbers, as often as the slowest rank looks.
class Agreement {
 public:
  /// A rank at this moment.
  struct Place {
    uint64_t done = 0;  ///< steps of the run
    bool calls = false;
    bool arrived = false;
  };

  /// Collective; `comm` must outlive this.
  explicit Agreement(Communicator& comm) : link_(comm) {}

  /// The ranks meet at `limit` steps, or before. Collective.
  void begin(uint64_t limit);

  /// Looks at the sum, starts the next one with `place`, and never waits. Whether something moved.
  bool look(const Place& place);

  bool may_step(uint64_t done) const { return !asked_ && done < meeting_; }
  uint64_t meeting() const { return meeting_; }
  bool over() const { return over_; }

 private:
  void conclude();

  Link link_;
  std::vector<int64_t> values_;  // steps of each rank, calls, arrivals
  std::optional<Task> sum_;      // of them
  uint64_t meeting_ = 0;
  bool asked_ = false;   // the next sum decides
  bool called_ = false;  // it has decided
  bool over_ = false;
};

}  // namespace dlflow::runtime
