#pragma once

#include <string_view>

#include "runtime/watch/judge.h"
#include "runtime/watch/watch_end.h"

namespace dlflow::runtime {

/// Rank 0's end: receives from all ranks, and judges.
class WatchCenter : public WatchEnd {
 public:
  /// `own`: the calls of this rank; must outlive this.
  WatchCenter(int num_ranks, const CallLog& own, WatchLimits limits);

  void gather(Time now) override { hear(now); }
  Outcome turn(const Pulse& pulse, bool beats, Time now) override;
  void fail(Errc code, const std::string& message, Time now) override;
  bool leave() override;

 private:
  void hear(Time now);
  void answer(const Frame& frame, Time now);

  bool has_decided_ = false, says_goodbye_ = false;
  Judge judge_;
};

}  // namespace dlflow::runtime
