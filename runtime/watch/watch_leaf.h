#pragma once

#include "base/endpoint.h"
#include "runtime/watch/frame_socket.h"
#include "runtime/watch/judge.h"
#include "runtime/watch/watch_end.h"

namespace dlflow::runtime {

/// The end of any rank but 0: tells rank 0 what it asks for, and looks whether rank 0 lives.
class WatchLeaf : public WatchEnd {
 public:
  /// Connects to rank 0; is_connected() says whether that worked, within seconds. `own` are the
  /// calls of this rank; must outlive this. `tells`: it is for this rank to say that rank 0 is
  /// gone. `time_to_welcome`: the longest time that an address where the connection was taken may
  /// be silent.
  WatchLeaf(int rank, const Endpoint& center, const CallLog& own, WatchLimits limits, bool tells,
            std::chrono::milliseconds time_to_welcome = std::chrono::seconds(10));

  bool is_connected() const { return link_.is_open(); }

  void add_to(std::vector<pollfd>& descriptors) const override;
  Outcome turn(const Pulse& pulse, bool beats, Time now) override;
  void pass_on(const WatchError&) override {}  // rank 0 does
  void fail(Errc code, const std::string& message, Time now) override;
  bool leave() override;

 private:
  std::optional<WatchError> hear(Time now);
  std::optional<WatchError> answer(const Frame& frame);
  void compare(const Pulse& center);

  const CallLog& own_;
  WatchLimits limits_;
  bool tells_;
  std::string center_;  // "rank 0 (node b1)"
  FrameSocket link_;
  Time heard_, moved_;  // the last pulse of rank 0; the last progress of this one
  uint64_t progress_ = 0;
  bool differs_ = false, warned_ = false, says_goodbye_ = false;
  bool is_free_ = false;  // all ranks are done
};

}  // namespace dlflow::runtime
