#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "runtime/watch/frame_socket.h"
#include "runtime/watch/judge.h"
#include "runtime/watch/watch_end.h"

namespace dlflow::runtime {

/// The end of any rank but 0: reports to its parent, watches whether the parent is alive, and
/// forwards frames between its children and rank 0.
class WatchMember : public WatchEnd {
 public:
  /// The position of a rank in the tree.
  struct TreePosition {
    int rank = 0, num_ranks = 0;
    Endpoint parent{};
    bool tells = false;  ///< this rank reports the loss of its parent
  };

  /// Connects to its parent within seconds; is_connected() tells whether that worked. `own`: the
  /// calls of this rank; must outlive this. `time_to_welcome`: the longest time to wait for an
  /// answer from an address that accepted the connection.
  WatchMember(const TreePosition& position, const CallLog& own, WatchLimits limits,
              std::chrono::milliseconds time_to_welcome = std::chrono::seconds(10));
  ~WatchMember() override;

  bool is_connected() const { return link_.is_open(); }

  void gather(Time now) override;
  void add_to(std::vector<pollfd>& descriptors) const override;
  Outcome turn(const Pulse& pulse, bool beats, Time now) override;
  void fail(Errc code, const std::string& message, Time now) override;
  bool leave() override;

 private:
  void pass_up(const Frame& frame);
  void pass_pulses_up();
  void beat(const Pulse& pulse);
  std::optional<WatchError> hear(Time now);
  std::optional<WatchError> answer(const Frame& frame);
  void compare(const Pulse& center);

  const CallLog& own_;
  WatchLimits limits_;
  bool tells_;
  std::string parent_;  // "rank 0 (node b1)"
  FrameSocket link_;
  Time heard_, moved_;  // last pulse of the parent; last progress of this rank
  uint64_t progress_ = 0;
  std::vector<Frame> pulses_;       // from ranks behind this one, to send at the next beat
  std::optional<Frame> of_center_;  // the last pulse of rank 0
  bool differs_ = false, warned_ = false, says_goodbye_ = false;
  bool is_free_ = false;  // all ranks are done, or the parent has left
};

}  // namespace dlflow::runtime
