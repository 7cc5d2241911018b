#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/lifeline.h"
#include "runtime/watch/pulse.h"

namespace dlflow::runtime {

class WatchChildren;

/// One rank's end of the side channel, for its watch thread. Implementations: WatchCenter (rank 0),
/// WatchMember (the others). No call waits.
class WatchEnd {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~WatchEnd() = default;

  virtual const WatchChildren& children() const = 0;

  /// Lets in the children that have come, before the watch begins.
  virtual void gather(Time now) = 0;

  /// Adds the descriptors to poll.
  virtual void add_to(std::vector<pollfd>& descriptors) const = 0;

  struct Outcome {
    std::string warning;              ///< to be told by this rank
    std::optional<WatchError> error;  ///< all ranks end; the other ranks of this rank know
    bool tells = false;               ///< this rank is the one that says so
  };
  /// Reads what has come, answers, and judges. `beats`: it is time to tell the others this rank's
  /// `pulse`.
  virtual Outcome turn(const Pulse& pulse, bool beats, Time now) = 0;

  /// `error` of the last Outcome has been said to people: now the others may end.
  virtual void pass_on(const WatchError& error) = 0;

  /// This rank threw: the others are to know.
  virtual void fail(Errc code, const std::string& message, Time now) = 0;

  /// This rank's work is done. Called until it returns true: then that of all ranks is, or they
  /// are gone, and nobody needs this any more.
  virtual bool leave() = 0;
};

}  // namespace dlflow::runtime
