#pragma once

#include <atomic>
#include <functional>

namespace dlflow::steps {

/// A rank's side of its guard: it says there that people know why all ranks end.
class GuardedRank {
 public:
  /// Of a rank that has no guard.
  GuardedRank() = default;

  /// Why all ranks end, as far as guards need to know.
  enum class End {
    Unknown,
    Mistake,     ///< another start would end alike
    RankIsLost,  ///< another start can go on, if there is something to go on from
  };

  /// \param end  in memory that rank and guard share
  explicit GuardedRank(std::atomic<End>* end) : end_(end) {}

  /// All ranks end, and people are told why. Launchers may kill whoever ends later: if a signal
  /// ends this rank now, its guard is silent.
  void end_is_known(End end) const {
    if (end_ != nullptr) *end_ = end;
  }

 private:
  std::atomic<End>* end_ = nullptr;
};

/// Goes on in a child process, which becomes the rank, and stays behind as its guard: a rank that
/// is killed then ends with a message and an exit status of ours, where mpirun and srun would know
/// a signal only. For main, before there are threads. Returns in the child, which ignores SIGPIPE;
/// the guard
///  - passes signals on, and the child's exit status;
///  - if a signal ended the child that it did not pass on, says so, unless the reason for the end
///    of all ranks is known, and ends with 75 if can_resume(), else with 128 and the number of the
///    signal;
///  - kills a child that was stopped for longer than the stall timeout (launch.h) and a little: the
///    other ranks have ended by then, and srun would wait for it.
/// The child dies with its guard. Does nothing for a program that no launcher started.
GuardedRank guard_rank(const std::function<bool()>& can_resume);

}  // namespace dlflow::steps
