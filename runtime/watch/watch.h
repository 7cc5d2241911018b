#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/comm/lifeline.h"
#include "runtime/watch/judge.h"

/// Fail fast: ranks that make different calls, die, hang or throw end all ranks within seconds, and
/// the message names them.
namespace dlflow::runtime {

struct WatchOptions {
  WatchLimits limits;

  /// The longest time that a rank may continue to compute once the others end.
  std::chrono::milliseconds time_to_end = std::chrono::seconds(4);

  /// Called once work() is done: returns the longest time to wait for the other ranks' work. Then
  /// this rank leaves without them. Empty: no limit.
  std::function<std::chrono::milliseconds()> linger{};

  /// Prints a warning, or the reason why all ranks end. Called on the watch thread of one rank.
  std::function<void(const std::string&)> tell = [](const std::string&) {};

  /// Called on the watch thread when all ranks end: after `tell`, if this rank reports the reason,
  /// and before this rank sends it to others.
  std::function<void(const WatchError&)> known = [](const WatchError&) {};

  /// Called on the watch thread when time_to_end is over, to end the process.
  std::function<void(const WatchError&)> last_resort = [](const WatchError&) {};
};

/// Calls `work` on all ranks of `comm` and watches over it. Collective. Alone (P is 1) this is
/// work().
///
/// Each rank has a thread that never touches `comm`, and a TCP connection to its parent in a tree.
/// Ten times a second, it sends which collective calls the rank has submitted
/// (Communicator::submit) and whether it waits. All ranks throw the same WatchError from any wait,
/// or at their next call
/// - within 1 s if two ranks submitted different calls, or one threw: then this is what it threw;
/// - within 1 s of a rank's death, which closes its connection;
/// - after limits.stall if a rank that others wait for is stopped or does nothing. Computing and an
///   Activity count as doing something.
/// If ranks cannot connect, `tell` reports it and work() is not watched.
void under_watch(Communicator& comm, const WatchOptions& options,
                 const std::function<void()>& work);

}  // namespace dlflow::runtime
