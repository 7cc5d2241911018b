#pragma once

#include <atomic>
#include <functional>

namespace dlflow::steps {

/// A rank's side of its guard. The rank records here that the reason for the end has been reported.
class GuardedRank {
 public:
  /// For a rank without a guard.
  GuardedRank() = default;

  /// Why all ranks end, as far as it concerns guards.
  enum class End {
    Unknown,
    Mistake,     ///< another start would end the same way
    RankIsLost,  ///< another start can continue, if there is a checkpoint
  };

  /// \param end  in memory that rank and guard share
  explicit GuardedRank(std::atomic<End>* end) : end_(end) {}

  /// Records that all ranks end and the reason has been reported. Launchers may kill ranks that end
  /// later than the first: if a signal ends this rank from now on, its guard prints nothing.
  void end_is_known(End end) const {
    if (end_ != nullptr) *end_ = end;
  }

 private:
  std::atomic<End>* end_ = nullptr;
};

/// Forks: the child becomes the rank, the parent stays behind as its guard. A rank that is killed
/// then ends with our message and exit status; mpirun and srun would only report a signal. Must be
/// called in main before threads exist. Returns in the child, which ignores SIGPIPE. The guard
///  - passes on signals to the child, and the child's exit status to the launcher;
///  - reports a signal that ended the child and that the guard did not pass on, unless the reason
///    for the end of all ranks is known; then ends with 75 if can_resume(), else with 128 plus the
///    signal's number;
///  - kills a child that was stopped for slightly longer than the stall timeout (launch.h): the
///    other ranks have ended by then, and srun would wait for it.
/// The child dies with its guard. Does nothing for a program that no launcher started.
GuardedRank guard_rank(const std::function<bool()>& can_resume);

}  // namespace dlflow::steps
