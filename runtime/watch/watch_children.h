#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "runtime/watch/frame_socket.h"

namespace dlflow::runtime {

/// The connections of a rank to its children in the tree of the side channel.
class WatchChildren {
 public:
  using Time = std::chrono::steady_clock::time_point;

  WatchChildren(int rank, int num_ranks);

  const Endpoint& endpoint() const { return endpoint_; }
  int first() const { return first_; }  ///< the lowest child
  int size() const { return int(links_.size()); }
  int num_joined() const { return num_joined_; }

  void add_to(std::vector<pollfd>& descriptors) const;

  /// Accepts the children that have the token, and passes arrived frames to `take`, including
  /// Joined and Lost. Each frame names the rank concerned.
  using Take = std::function<void(const Frame& frame)>;
  void hear(Time now, const Take& take);

  void send_all(FrameKind kind, std::string_view body = {});

  /// Whether no child is connected.
  bool are_gone() const;

 private:
  struct Stranger {
    FrameSocket link;
    Time since;
  };

  void welcome_strangers(Time now, const Take& take);
  void send_strangers_away(Time now);
  size_t max_strangers() const;
  void join(FrameSocket& stranger, const Frame& hello, const Take& take);
  void hear(int rank, FrameSocket& link, const Take& take);

  int first_;
  Listener listener_;
  Endpoint endpoint_;
  std::list<Stranger> strangers_;   // have not sent the token yet; oldest first
  std::vector<FrameSocket> links_;  // indexed by child - first_
  int num_joined_ = 0;
};

}  // namespace dlflow::runtime
