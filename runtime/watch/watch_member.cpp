#include "runtime/watch/watch_member.h"

#include <utility>

#include "base/process.h"
#include "runtime/watch/frames.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToConnect = 2s;  // per address

std::optional<Frame> wait_for_frame(FrameSocket& link, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    if (auto frame = link.receive()) return frame;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (!link.is_open() || left <= 0ms) return std::nullopt;
    pollfd waiting{link.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, int(left.count()));  // a signal may interrupt it
  }
}

/// Connects to the first address whose listener accepts the token.
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

WatchMember::WatchMember(const TreePosition& position, const CallLog& own, WatchLimits limits,
                         std::chrono::milliseconds time_to_welcome)
    : WatchEnd(position.rank, position.num_ranks),
      own_(own),
      limits_(limits),
      tells_(position.tells),
      parent_("rank " + std::to_string(parent_of(position.rank)) + " (node " +
              position.parent.node + ")"),
      link_(connect(position.rank, position.parent, time_to_welcome)),
      heard_(std::chrono::steady_clock::now()),
      moved_(heard_) {}

/// A rank that leaves early cannot forward frames: its children continue without a watch.
WatchMember::~WatchMember() {
  if (says_goodbye_) children_.send_all(FrameKind::Goodbye);
}

void WatchMember::gather(Time now) {
  children_.hear(now, [&](const Frame& frame) { pass_up(frame); });
}

void WatchMember::add_to(std::vector<pollfd>& descriptors) const {
  WatchEnd::add_to(descriptors);
  if (link_.is_open()) descriptors.push_back(link_.waiting());
}

/// Pulses wait for the next beat, so that few ranks wake rank 0. Other frames do not wait, and
/// earlier pulses are sent before them.
void WatchMember::pass_up(const Frame& frame) {
  if (frame.kind == FrameKind::Pulse) {
    pulses_.push_back(frame);
    return;
  }
  pass_pulses_up();
  link_.send(frame.kind, frame.body, frame.rank);
}

void WatchMember::pass_pulses_up() {
  for (const Frame& frame : pulses_) link_.add(frame.kind, frame.body, frame.rank);
  pulses_.clear();
}

/// Children receive a beat even if rank 0 is silent, since they judge this rank by it.
void WatchMember::beat(const Pulse& pulse) {
  link_.add(FrameKind::Pulse, to_body(pulse));
  pass_pulses_up();
  link_.flush();
  if (of_center_) children_.send_all(of_center_->kind, of_center_->body);
}

WatchEnd::Outcome WatchMember::turn(const Pulse& pulse, bool beats, Time now) {
  gather(now);
  if (beats) beat(pulse);
  link_.flush();
  if (auto verdict = hear(now)) return {"", std::move(verdict), false};
  if (is_free_) return {};
  if (!link_.is_open()) {
    return {"", WatchError(Fault::Lost, Errc::Unavailable, describe_loss(parent_)), tells_};
  }
  if (pulse.progress != progress_ || !pulse.waits) moved_ = now;
  progress_ = pulse.progress;
  const auto silent = now - std::max(heard_, moved_);
  const std::string place = "; others wait for it in call " + std::to_string(pulse.calls);
  if (silent >= limits_.stall) {
    return {"",
            WatchError(Fault::Stalled, Errc::Unavailable,
                       describe_silence(parent_, limits_.stall) + place),
            tells_};
  }
  if (silent < limits_.warning || std::exchange(warned_, true) || !tells_) return {};
  return {describe_silence(parent_, limits_.warning) + place, std::nullopt, true};
}

/// Returns the decision of rank 0, if any.
std::optional<WatchError> WatchMember::hear(Time now) {
  while (const auto frame = link_.receive()) {
    heard_ = now;
    if (auto verdict = answer(*frame)) return verdict;
  }
  return std::nullopt;
}

std::optional<WatchError> WatchMember::answer(const Frame& frame) {
  if (frame.kind == FrameKind::Verdict) return error_from(frame.body);
  if (frame.kind == FrameKind::Goodbye) {
    is_free_ = true;
    children_.send_all(FrameKind::Goodbye);
    link_.close();
  }
  if (frame.kind == FrameKind::Ask) {
    link_.send(FrameKind::Calls, to_body(own_.recent()));
    children_.send_all(FrameKind::Ask);
  }
  if (frame.kind == FrameKind::Pulse) {
    of_center_ = frame;
    if (const auto pulse = from_body<Pulse>(frame.body)) compare(*pulse);
  }
  return std::nullopt;
}

/// Rank 0 does the same with this rank's pulses; the one with more calls detects a difference.
void WatchMember::compare(const Pulse& center) {
  const auto hash = own_.hash_after(center.calls);
  if (differs_ || !hash || *hash == center.hash) return;
  differs_ = true;
  link_.send(FrameKind::Differs);
}

void WatchMember::fail(Errc code, const std::string& message, Time) {
  link_.send(FrameKind::Failed, to_body(WatchError(Fault::Failed, code, message)));
}

bool WatchMember::leave() {
  if (!std::exchange(says_goodbye_, true)) link_.send(FrameKind::Goodbye);
  return !link_.is_open() && children_.are_gone();
}

}  // namespace dlflow::runtime
