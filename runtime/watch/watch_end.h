#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/lifeline.h"
#include "runtime/watch/frames.h"
#include "runtime/watch/pulse.h"
#include "runtime/watch/watch_children.h"

namespace dlflow::runtime {

/// One rank's end of the side channel, used by its watch thread. Implementations: WatchCenter (rank
/// 0), WatchMember (the others). No call blocks.
class WatchEnd {
 public:
  using Time = WatchChildren::Time;

  WatchEnd(int rank, int num_ranks) : children_(rank, num_ranks) {}
  virtual ~WatchEnd() = default;

  const WatchChildren& children() const { return children_; }

  /// Accepts the children that have connected, before the watch begins.
  virtual void gather(Time now) = 0;

  /// Adds the descriptors to poll.
  virtual void add_to(std::vector<pollfd>& descriptors) const { children_.add_to(descriptors); }

  struct Outcome {
    std::string warning;              ///< for this rank to print
    std::optional<WatchError> error;  ///< all ranks end; pass_on() tells further ranks
    bool tells = false;               ///< this rank prints the error
  };
  /// Reads arrived frames, answers, and judges. `beats`: it is time to send this rank's `pulse`.
  virtual Outcome turn(const Pulse& pulse, bool beats, Time now) = 0;

  /// Called once `error` of the last Outcome is printed: now the others may end.
  void pass_on(const WatchError& error) { children_.send_all(FrameKind::Verdict, to_body(error)); }

  /// Reports to the others that this rank threw.
  virtual void fail(Errc code, const std::string& message, Time now) = 0;

  /// Reports that this rank's work is done. Called until it returns true: then all ranks are done
  /// or gone, and this end is not needed any more.
  virtual bool leave() = 0;

 protected:
  WatchChildren children_;
};

}  // namespace dlflow::runtime
