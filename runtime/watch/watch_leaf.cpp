#include "runtime/watch/watch_leaf.h"

#include <utility>

#include "base/process.h"
#include "runtime/watch/frames.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToConnect = 2s;  // to each address

std::optional<Frame> wait_for_frame(FrameSocket& link, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    if (auto frame = link.receive()) return frame;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (!link.is_open() || left <= 0ms) return std::nullopt;
    pollfd waiting{link.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, int(left.count()));  // a signal may end it, too
  }
}

/// The first address where somebody answers who knows the token, too.
FrameSocket connect(int rank, const Endpoint& center, std::chrono::milliseconds time_to_welcome) {
  const std::string hello =
      to_body(HelloHead{rank, uint32_t(center.token.size())}) + center.token + host_name();
  for (const std::string& address : addresses_to_try(center)) {
    FileDescriptor socket = connect_to(address, center.port, kTimeToConnect);
    if (!socket) continue;
    FrameSocket link(std::move(socket));
    link.send(FrameKind::Hello, hello);
    const auto answer = wait_for_frame(link, time_to_welcome);
    if (answer && answer->kind == FrameKind::Welcome) return link;
  }
  return {};
}

}  // namespace

WatchLeaf::WatchLeaf(int rank, const Endpoint& center, const CallLog& own, WatchLimits limits,
                     bool tells, std::chrono::milliseconds time_to_welcome)
    : own_(own),
      limits_(limits),
      tells_(tells),
      center_("rank 0 (node " + center.node + ")"),
      link_(connect(rank, center, time_to_welcome)),
      heard_(std::chrono::steady_clock::now()),
      moved_(heard_) {}

void WatchLeaf::add_to(std::vector<pollfd>& descriptors) const {
  if (!link_.is_open()) return;
  descriptors.push_back(
      {link_.descriptor(), short(POLLIN | (link_.has_to_send() ? POLLOUT : 0)), 0});
}

WatchEnd::Outcome WatchLeaf::turn(const Pulse& pulse, bool beats, Time now) {
  if (beats) link_.send(FrameKind::Pulse, to_body(pulse));
  link_.flush();
  if (auto verdict = hear(now)) return {"", std::move(verdict), false};
  if (is_free_) return {};
  if (!link_.is_open()) {
    return {"", WatchError(Fault::Lost, Errc::Unavailable, describe_loss(center_)), tells_};
  }
  if (pulse.progress != progress_ || !pulse.waits) moved_ = now;
  progress_ = pulse.progress;
  const auto silent = now - std::max(heard_, moved_);
  const std::string place = "; others wait for it in call " + std::to_string(pulse.calls);
  if (silent >= limits_.stall) {
    return {"",
            WatchError(Fault::Stalled, Errc::Unavailable,
                       describe_silence(center_, limits_.stall) + place),
            tells_};
  }
  if (silent < limits_.warning || std::exchange(warned_, true) || !tells_) return {};
  return {describe_silence(center_, limits_.warning) + place, std::nullopt, true};
}

/// What rank 0 has decided, if anything.
std::optional<WatchError> WatchLeaf::hear(Time now) {
  while (const auto frame = link_.receive()) {
    heard_ = now;
    if (auto verdict = answer(*frame)) return verdict;
  }
  return std::nullopt;
}

std::optional<WatchError> WatchLeaf::answer(const Frame& frame) {
  if (frame.kind == FrameKind::Verdict) return error_from(frame.body);
  if (frame.kind == FrameKind::Goodbye) {
    is_free_ = true;
    link_.close();
  }
  if (frame.kind == FrameKind::Ask) link_.send(FrameKind::Calls, to_body(own_.recent()));
  if (frame.kind == FrameKind::Pulse) {
    if (const auto pulse = from_body<Pulse>(frame.body)) compare(*pulse);
  }
  return std::nullopt;
}

/// Rank 0 does the same with this rank's pulses; whoever has made more calls can tell.
void WatchLeaf::compare(const Pulse& center) {
  const auto hash = own_.hash_after(center.calls);
  if (differs_ || !hash || *hash == center.hash) return;
  differs_ = true;
  link_.send(FrameKind::Differs);
}

void WatchLeaf::fail(Errc code, const std::string& message, Time) {
  link_.send(FrameKind::Failed, to_body(WatchError(Fault::Failed, code, message)));
}

bool WatchLeaf::leave() {
  if (!std::exchange(says_goodbye_, true)) link_.send(FrameKind::Goodbye);
  return !link_.is_open();
}

}  // namespace dlflow::runtime
