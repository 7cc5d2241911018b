#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Agrees on the step after which ranks that step at their own pace meet.
///
/// Beside the steps, a small sum over all ranks is taken repeatedly: the steps of each rank,
/// whether a rank calls for a meeting, and how many have arrived at it. All ranks see the same sums
/// in the same order, and draw the same conclusion from each. After a call no rank begins a step;
/// the next sum has the steps of each, and the ranks meet at the greatest of these. The sum in
/// which all have arrived is the last one.
///
/// Cost of a sum: 2 lg P messages of P + 2 numbers, as often as the slowest rank polls.
class Agreement {
 public:
  /// A rank's current progress.
  struct RankStatus {
    uint64_t done = 0;  ///< steps of the run
    bool calls = false;
    bool arrived = false;
  };

  /// Collective; `comm` must outlive this.
  explicit Agreement(Communicator& comm) : link_(comm) {}

  /// The ranks meet at `limit` steps or earlier. Collective.
  void begin(uint64_t limit);

  /// Polls the sum; starts the next one with `status`. Never waits. True if something moved.
  bool look(const RankStatus& status);

  bool may_step(uint64_t done) const { return !asked_ && done < meeting_; }
  uint64_t meeting() const { return meeting_; }
  bool over() const { return over_; }

 private:
  void conclude();

  Link link_;
  std::vector<int64_t> values_;  // steps of each rank, calls, arrivals
  std::optional<Task> sum_;      // over values_
  uint64_t meeting_ = 0;
  bool asked_ = false;   // the next sum decides on the meeting
  bool called_ = false;  // the meeting is decided
  bool over_ = false;
};

}  // namespace dlflow::runtime
