#include "runtime/watch/watch_center.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/watch/frames.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxHello = 512;

pollfd waiting_for(const FrameSocket& link) {
  return {link.descriptor(), short(POLLIN | (link.has_to_send() ? POLLOUT : 0)), 0};
}

}  // namespace

WatchCenter::WatchCenter(int num_ranks, const CallLog& own, WatchLimits limits)
    : listener_(listen_anywhere()),
      endpoint_(endpoint_of(listener_)),
      links_(size_t(num_ranks)),
      judge_(num_ranks, own, limits) {
  judge_.joined(0, endpoint_.node, std::chrono::steady_clock::now());
}

void WatchCenter::add_to(std::vector<pollfd>& descriptors) const {
  if (listener_.socket) descriptors.push_back({listener_.socket.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) descriptors.push_back(waiting_for(stranger.link));
  for (const FrameSocket& link : links_) {
    if (link.is_open()) descriptors.push_back(waiting_for(link));
  }
}

WatchEnd::Outcome WatchCenter::turn(const Pulse& pulse, bool beats, Time now) {
  if (listener_.socket) welcome_strangers(now);
  judge_.heard(0, pulse, now);
  for (size_t rank = 1; rank < links_.size(); ++rank) {
    if (links_[rank].is_open()) hear(int(rank), now);
  }
  if (has_decided_) return {};
  if (beats && !judge_.all_done()) send_all(FrameKind::Pulse, to_body(pulse));
  Judge::Opinion opinion = judge_.look(now);
  if (opinion.asks) send_all(FrameKind::Ask, "");
  has_decided_ = opinion.verdict.has_value();
  return {std::move(opinion.warning), std::move(opinion.verdict), true};
}

void WatchCenter::welcome_strangers(Time now) {
  while (strangers_.size() < max_strangers()) {
    FileDescriptor socket = accept_from(listener_);
    if (!socket) break;
    strangers_.push_back({FrameSocket(std::move(socket)), now});
  }
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const auto hello = stranger->link.receive(kMaxHello);
    if (hello) join(stranger->link, *hello, now);
    const bool gone = !stranger->link.is_open() || hello;
    stranger = gone ? strangers_.erase(stranger) : std::next(stranger);
  }
  send_strangers_away(now);
  if (num_joined_ + 1 == int(links_.size())) {
    listener_.socket.reset();
    strangers_.clear();
  }
}

/// All ranks may come at once, and others beside them.
size_t WatchCenter::max_strangers() const { return links_.size() + kMaxStrangers; }

/// Those who had their time, and the oldest of too many: a rank says its token at once.
void WatchCenter::send_strangers_away(Time now) {
  while (!strangers_.empty() &&
         (strangers_.size() == max_strangers() || now - strangers_.front().since > kTimeForToken)) {
    strangers_.pop_front();
  }
}

/// Takes over `stranger` if it is a rank that was not here yet.
void WatchCenter::join(FrameSocket& stranger, const Frame& hello, Time now) {
  std::string_view text;
  const auto head = from_body<HelloHead>(hello.body, &text);
  if (hello.kind != FrameKind::Hello || !head || head->rank < 1 ||
      size_t(head->rank) >= links_.size() || links_[size_t(head->rank)].is_open() ||
      !knows_token(endpoint_, text.substr(0, head->token_bytes))) {
    return;
  }
  FrameSocket& link = links_[size_t(head->rank)] = std::move(stranger);
  judge_.joined(head->rank, std::string(text.substr(endpoint_.token.size())), now);
  ++num_joined_;  // first: once that rank is welcome, the number is asked for
  link.send(FrameKind::Welcome);
}

void WatchCenter::hear(int rank, Time now) {
  FrameSocket& link = links_[size_t(rank)];
  link.flush();
  while (const auto frame = link.receive()) answer(rank, *frame, now);
  if (!link.is_open()) judge_.lost(rank, now);  // which one that has left is not
}

void WatchCenter::answer(int rank, const Frame& frame, Time now) {
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
    case FrameKind::Hello:
    case FrameKind::Welcome:
    case FrameKind::Ask:
    case FrameKind::Verdict:
      return;  // none of a rank's
  }
}

void WatchCenter::send_all(FrameKind kind, std::string_view body) {
  for (FrameSocket& link : links_) link.send(kind, body);
}

void WatchCenter::pass_on(const WatchError& error) { send_all(FrameKind::Verdict, to_body(error)); }

void WatchCenter::fail(Errc code, const std::string& message, Time now) {
  judge_.failed(0, code, message, now);
}

bool WatchCenter::leave() {
  judge_.done(0);
  if (judge_.all_done() && !std::exchange(says_goodbye_, true)) send_all(FrameKind::Goodbye, "");
  return std::ranges::none_of(links_, [](const FrameSocket& link) { return link.is_open(); });
}

}  // namespace dlflow::runtime
