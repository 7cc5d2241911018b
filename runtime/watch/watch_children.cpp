#include "runtime/watch/watch_children.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "runtime/watch/frames.h"
#include "runtime/watch/judge.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxHello = 512;

}  // namespace

WatchChildren::WatchChildren(int rank, int num_ranks)
    : first_(rank * kChildrenOfRank + 1),
      links_(size_t(std::clamp(num_ranks - first_, 0, kChildrenOfRank))) {
  if (links_.empty()) return;
  listener_ = listen_anywhere();
  endpoint_ = endpoint_of(listener_);
}

void WatchChildren::add_to(std::vector<pollfd>& descriptors) const {
  if (listener_.socket) descriptors.push_back({listener_.socket.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) descriptors.push_back(stranger.link.waiting());
  for (const FrameSocket& link : links_) {
    if (link.is_open()) descriptors.push_back(link.waiting());
  }
}

void WatchChildren::hear(Time now, const Take& take) {
  if (listener_.socket) welcome_strangers(now, take);
  for (size_t place = 0; place < links_.size(); ++place) {
    if (links_[place].is_open()) hear(first_ + int(place), links_[place], take);
  }
}

void WatchChildren::hear(int rank, FrameSocket& link, const Take& take) {
  link.flush();
  while (auto frame = link.receive()) {
    if (frame->rank == Frame::kSender) frame->rank = rank;
    take(*frame);
  }
  if (!link.is_open()) take({FrameKind::Lost, "", rank});
}

void WatchChildren::welcome_strangers(Time now, const Take& take) {
  try {
    while (strangers_.size() < max_strangers()) {
      FileDescriptor socket = accept_from(listener_);
      if (!socket) break;
      strangers_.push_back({FrameSocket(std::move(socket)), now});
    }
  } catch (const Error&) {
    // Too many open files: a rank that is not accepted reports it.
  }
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const auto hello = stranger->link.receive(kMaxHello);
    if (hello) join(stranger->link, *hello, take);
    const bool gone = !stranger->link.is_open() || hello;
    stranger = gone ? strangers_.erase(stranger) : std::next(stranger);
  }
  send_strangers_away(now);
  if (num_joined_ == size()) {
    listener_.socket.reset();
    strangers_.clear();
  }
}

/// All children may connect at once, and strangers besides.
size_t WatchChildren::max_strangers() const { return links_.size() + 1 + kMaxStrangers; }

/// Drops those whose time is over, and the oldest of too many: a rank sends its token at once.
void WatchChildren::send_strangers_away(Time now) {
  while (!strangers_.empty() &&
         (strangers_.size() == max_strangers() || now - strangers_.front().since > kTimeForToken)) {
    strangers_.pop_front();
  }
}

/// Takes over `stranger` if it is a child that has not joined yet.
void WatchChildren::join(FrameSocket& stranger, const Frame& hello, const Take& take) {
  std::string_view text;
  const auto head = from_body<HelloHead>(hello.body, &text);
  if (hello.kind != FrameKind::Hello || !head || head->rank < first_ ||
      head->rank >= first_ + size() || links_[size_t(head->rank - first_)].is_open() ||
      !knows_token(endpoint_, text.substr(0, head->token_bytes))) {
    return;
  }
  FrameSocket& link = links_[size_t(head->rank - first_)] = std::move(stranger);
  ++num_joined_;
  take({FrameKind::Joined, std::string(text.substr(endpoint_.token.size())), head->rank});
  link.send(FrameKind::Welcome);
}

void WatchChildren::send_all(FrameKind kind, std::string_view body) {
  for (FrameSocket& link : links_) link.send(kind, body);
}

bool WatchChildren::are_gone() const {
  return std::ranges::none_of(links_, [](const FrameSocket& link) { return link.is_open(); });
}

}  // namespace dlflow::runtime
