#pragma once

#include <atomic>
#include <list>
#include <vector>

#include "base/endpoint.h"
#include "runtime/watch/frame_socket.h"
#include "runtime/watch/judge.h"
#include "runtime/watch/watch_end.h"

namespace dlflow::runtime {

/// Rank 0's end: hears all ranks, and judges.
class WatchCenter : public WatchEnd {
 public:
  /// `own` are the calls of this rank; must outlive this.
  WatchCenter(int num_ranks, const CallLog& own, WatchLimits limits);

  const Endpoint& endpoint() const { return endpoint_; }

  /// Number of ranks that have connected; for any thread.
  int num_joined() const { return num_joined_; }

  void add_to(std::vector<pollfd>& descriptors) const override;
  Outcome turn(const Pulse& pulse, bool beats, Time now) override;
  void pass_on(const WatchError& error) override;
  void fail(Errc code, const std::string& message, Time now) override;
  bool leave() override;

 private:
  struct Stranger {
    FrameSocket link;
    Time since;
  };

  void welcome_strangers(Time now);
  void send_strangers_away(Time now);
  size_t max_strangers() const;
  void join(FrameSocket& stranger, const Frame& hello, Time now);
  void hear(int rank, Time now);
  void answer(int rank, const Frame& frame, Time now);
  void send_all(FrameKind kind, std::string_view body);

  Listener listener_;
  Endpoint endpoint_;
  std::string node_;
  std::list<Stranger> strangers_;   // have not said the token yet; the oldest first
  std::vector<FrameSocket> links_;  // by rank
  std::atomic<int> num_joined_{0};
  bool has_decided_ = false, says_goodbye_ = false;
  Judge judge_;
};

}  // namespace dlflow::runtime
