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

  /// The longest time that a rank may compute on once the others end.
  std::chrono::milliseconds time_to_end = std::chrono::seconds(4);

  /// Asked once work() is done: the longest time to wait for that of the other ranks. Then this
  /// rank leaves without them. Left out: as long as it takes.
  std::function<std::chrono::milliseconds()> linger{};

  /// Says something to people: a warning, or why all ranks end. One rank says it, its watch thread.
  std::function<void(const std::string&)> tell = [](const std::string&) {};

  /// Called on the watch thread when all ranks end: people were told why, if it is for this rank to
  /// tell; and ranks that hear of it from this one do not know yet.
  std::function<void(const WatchError&)> known = [](const WatchError&) {};

  /// Called on the watch thread if time_to_end is over: to end the process.
  std::function<void(const WatchError&)> last_resort = [](const WatchError&) {};
};

/// Calls `work` on all ranks of `comm` and watches over it. Collective.
///
/// Each rank has a thread that never touches `comm`, and a TCP connection to rank 0. It tells ten
/// times a second which collective calls the rank has submitted (Communicator::submit) and whether
/// it waits. All ranks throw the same WatchError from whatever they wait for, or at their next call
///  - within 1 s if two ranks submitted different calls, or one threw: then this is what it threw;
///  - within 1 s of a rank's death, which closes its connection;
///  - after limits.stall if a rank that others wait for is stopped or does nothing. Computing and
///    an Activity are something.
/// If ranks cannot connect, `tell` hears it and work() is not watched over.
/// Alone (P is 1) this is work().
void under_watch(Communicator& comm, const WatchOptions& options,
                 const std::function<void()>& work);

}  // namespace dlflow::runtime
