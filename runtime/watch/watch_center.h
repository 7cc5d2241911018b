#pragma once

#include <string_view>
#include <vector>

#include "runtime/watch/judge.h"
#include "runtime/watch/watch_children.h"
#include "runtime/watch/watch_end.h"

namespace dlflow::runtime {

/// Rank 0's end: receives from all ranks, and judges.
class WatchCenter : public WatchEnd {
 public:
  /// `own`: the calls of this rank; must outlive this.
  WatchCenter(int num_ranks, const CallLog& own, WatchLimits limits);

  const WatchChildren& children() const override { return children_; }
  void gather(Time now) override { hear(now); }

  void add_to(std::vector<pollfd>& descriptors) const override;
  Outcome turn(const Pulse& pulse, bool beats, Time now) override;
  void pass_on(const WatchError& error) override;
  void fail(Errc code, const std::string& message, Time now) override;
  bool leave() override;

 private:
  void hear(Time now);
  void answer(const Frame& frame, Time now);

  WatchChildren children_;
  bool has_decided_ = false, says_goodbye_ = false;
  Judge judge_;
};

}  // namespace dlflow::runtime
