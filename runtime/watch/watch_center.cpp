#include "runtime/watch/watch_center.h"

#include <utility>

#include "base/process.h"
#include "runtime/watch/frames.h"

namespace dlflow::runtime {

WatchCenter::WatchCenter(int num_ranks, const CallLog& own, WatchLimits limits)
    : WatchEnd(0, num_ranks), judge_(num_ranks, own, limits) {
  judge_.joined(0, host_name(), std::chrono::steady_clock::now());
}

WatchEnd::Outcome WatchCenter::turn(const Pulse& pulse, bool beats, Time now) {
  judge_.heard(0, pulse, now);
  hear(now);
  if (has_decided_) return {};
  if (beats && !judge_.all_done()) children_.send_all(FrameKind::Pulse, to_body(pulse));
  Judge::Opinion opinion = judge_.look(now);
  if (opinion.asks) children_.send_all(FrameKind::Ask, "");
  has_decided_ = opinion.verdict.has_value();
  return {std::move(opinion.warning), std::move(opinion.verdict), true};
}

void WatchCenter::hear(Time now) {
  children_.hear(now, [&](const Frame& frame) { answer(frame, now); });
}

/// Handles a frame of any rank; ignores invalid ranks.
void WatchCenter::answer(const Frame& frame, Time now) {
  const int rank = frame.rank;
  if (!judge_.knows(rank)) return;
  switch (frame.kind) {
    case FrameKind::Pulse:
      if (const auto pulse = from_body<Pulse>(frame.body)) judge_.heard(rank, *pulse, now);
      return;
    case FrameKind::Differs:
      return judge_.differs(rank);
    case FrameKind::Calls:
      return judge_.sent({rank, calls_from(frame.body)});
    case FrameKind::Failed:
      if (const auto error = error_from(frame.body)) {
        judge_.failed(rank, error->code(), error->what(), now);
      }
      return;
    case FrameKind::Goodbye:
      return judge_.done(rank);
    case FrameKind::Joined:
      return judge_.joined(rank, frame.body, now);
    case FrameKind::Lost:
      return judge_.lost(rank, now);  // no loss if it has left
    case FrameKind::Hello:
    case FrameKind::Welcome:
    case FrameKind::Ask:
    case FrameKind::Verdict:
      return;  // never sent by a rank
  }
}

void WatchCenter::fail(Errc code, const std::string& message, Time now) {
  judge_.failed(0, code, message, now);
}

bool WatchCenter::leave() {
  judge_.done(0);
  if (judge_.all_done() && !std::exchange(says_goodbye_, true))
    children_.send_all(FrameKind::Goodbye, "");
  return children_.are_gone();
}

}  // namespace dlflow::runtime
