#include "runtime/comm/socket_communicator.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/process.h"
#include "base/socket.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x646c666c;                   // "dlfl"
constexpr auto kTimeToConnect = std::chrono::seconds(2);  // per address

/// A receive waits that long for its peer to connect before this rank connects.
constexpr auto kTimeToBeLinked = std::chrono::milliseconds(100);

/// Descriptors of a rank besides its connections: those of the program and of the watch.
constexpr size_t kOtherFiles = 512;

std::string first_line(const char* path) {
  std::string line;
  std::ifstream(path) >> line;
  return line;
}

/// Returns "pid:[4026531836]". Reads the link's text, since under proot (udocker) its target does
/// not exist. An unreadable namespace counts as private.
std::string name_space(const std::string& kind) {
  std::error_code error;
  const std::string text = std::filesystem::read_symlink("/proc/self/ns/" + kind, error);
  return error ? std::to_string(::getpid()) + "@" + host_name() : text;
}

/// Returns the same text for processes that can reach each other's DescriptorMailbox: one boot of
/// one machine, one network namespace, one user.
std::string memory_of_this_machine() {
  std::ostringstream text;
  text << first_line("/proc/sys/kernel/random/boot_id") << ':' << name_space("net") << ':'
       << ::geteuid();
  return text.str();
}

std::span<std::byte> bytes_of(auto& value) { return std::as_writable_bytes(std::span(&value, 1)); }

}  // namespace

SocketEndpoint::SocketEndpoint(const std::string& memory)
    : listener_(listen_anywhere()),
      endpoint_(endpoint_of(listener_)),
      memory_(memory.empty() ? memory_of_this_machine() : memory) {
  if (memory_.find_first_of(" \t\n") == std::string::npos) return;
  throw Error(Errc::InvalidInput,
              "'" + memory_ + "' is not a valid memory name: it contains blanks");
}

std::string SocketEndpoint::text() const { return memory_ + ' ' + to_string(endpoint_); }

SocketCommunicator::SocketCommunicator(SocketEndpoint own, int rank,
                                       const std::vector<std::string>& endpoints,
                                       std::chrono::milliseconds timeout)
    : rank_(rank),
      timeout_(timeout),
      listener_(std::move(own.listener_)),
      token_(own.endpoint_.token),
      peers_(endpoints.size()) {
  DLFLOW_CHECK(rank >= 0 && size_t(rank) < endpoints.size());
  allow_open_files(kOtherFiles + 2 * endpoints.size());
  std::vector<std::string> memories;
  for (const std::string& text : endpoints) {
    const size_t blank = text.find(' ');
    memories.push_back(text.substr(0, blank));
    endpoints_.push_back(blank == std::string::npos ? "" : text.substr(blank + 1));
    const Endpoint endpoint = endpoint_from(endpoints_.back());
    if (endpoint.token.size() == kTokenBytes && endpoint.port != 0) continue;
    throw Error(Errc::InvalidInput, "rank " + std::to_string(endpoints_.size() - 1) +
                                        ": its address is not one that this version wrote: '" +
                                        text + "'; start all ranks with one version");
  }
  share_out_nodes(memories);
  barrier();
}

Endpoint SocketCommunicator::endpoint_of_rank(int rank) const {
  return endpoint_from(endpoints_[size_t(rank)]);
}

void SocketCommunicator::share_out_nodes(const std::vector<std::string>& memories) {
  std::map<std::string, int> known;
  for (size_t rank = 0; rank < memories.size(); ++rank) {
    nodes_.push_back(known.try_emplace(memories[rank], int(known.size())).first->second);
    if (memories[rank] != memories[size_t(rank_)]) continue;
    if (int(rank) == rank_) node_rank_ = int(node_ranks_.size());
    node_ranks_.push_back(int(rank));
  }
}

void SocketCommunicator::open_link(int rank) {
  peers_[size_t(rank)].opened = std::make_unique<Link>();
  linked_.push_back(rank);
  try_next_address(rank);
}

/// Sends the token to the first of the peer's addresses that accepts a connection. The answer
/// proves whether it is the peer.
void SocketCommunicator::try_next_address(int rank) {
  Peer& peer = peers_[size_t(rank)];
  Link& link = *peer.opened;
  const Endpoint endpoint = endpoint_of_rank(rank);
  const std::vector<std::string> addresses = addresses_to_try(endpoint);
  Hello hello{kMagic, rank_, {}};
  std::ranges::copy(endpoint.token, hello.token.begin());
  while (link.tried < addresses.size()) {
    link.socket = connect_to(addresses[link.tried++], endpoint.port, kTimeToConnect);
    if (link.socket && send_all(link.socket, bytes_of(hello), Clock::now() + kTimeToConnect))
      return;
  }
  close(rank, link);
}

/// The peer has ended if it has no other link. Messages that arrived by other links are complete.
void SocketCommunicator::close(int rank, Link& link) {
  link.socket.reset();
  Peer& peer = peers_[size_t(rank)];
  const auto is_open = [](const std::unique_ptr<Link>& one) { return one && one->socket; };
  peer.ended = !is_open(peer.opened) && !is_open(peer.accepted);
}

/// False if the answer has not arrived yet or is invalid.
bool SocketCommunicator::read_answer(int rank, Link& link) {
  uint32_t answer = 0;
  std::byte* const to = reinterpret_cast<std::byte*>(&link.header) + link.header_got;
  const ssize_t got = ::recv(link.socket.get(), to, sizeof answer - link.header_got, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got > 0) link.header_got += size_t(got);
  if (got > 0 && link.header_got < sizeof answer) return false;
  link.header_got = 0;
  std::memcpy(&answer, &link.header, sizeof answer);
  if (got <= 0 || answer != kMagic) {
    try_next_address(rank);
    return false;
  }
  link.ready = peers_[size_t(rank)].came = true;
  flush(peers_[size_t(rank)]);
  return true;
}

/// Accepts pending connections. A rank sends its token at once; strangers that do not are
/// disconnected, and if there are too many, the oldest first.
void SocketCommunicator::let_in() {
  const auto now = Clock::now();
  while (FileDescriptor socket = accept_from(listener_)) {
    if (strangers_.size() == peers_.size() + kMaxStrangers) strangers_.pop_front();
    strangers_.push_back({std::move(socket), now});
  }
  std::erase_if(strangers_, [&](Stranger& stranger) {
    const auto rest = bytes_of(stranger.hello).subspan(stranger.got);
    const ssize_t got = ::recv(stranger.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (got > 0) stranger.got += size_t(got);
    if (stranger.got == sizeof stranger.hello) join(stranger);
    const bool waits = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    return !waits || stranger.got == sizeof stranger.hello || now - stranger.since > kTimeForToken;
  });
}

/// Adopts the connection of a rank that has the token and is not yet connected here.
void SocketCommunicator::join(Stranger& stranger) {
  const Hello& hello = stranger.hello;
  const Endpoint self{token_, "", 0, {}};
  if (hello.magic != kMagic || hello.rank < 0 || hello.rank >= size() || hello.rank == rank_ ||
      peers_[size_t(hello.rank)].accepted ||
      !knows_token(self, {hello.token.data(), hello.token.size()})) {
    return;
  }
  uint32_t answer = kMagic;
  if (!send_all(stranger.socket, bytes_of(answer), Clock::now() + kTimeForToken)) return;
  Peer& peer = peers_[size_t(hello.rank)];
  if (!peer.opened) linked_.push_back(hello.rank);
  peer.accepted = std::make_unique<Link>();
  peer.accepted->socket = std::move(stranger.socket);
  peer.accepted->ready = peer.came = true;
  peer.ended = false;
  flush(peer);
}

void SocketCommunicator::close_in_child() {
  listener_.socket.reset();
  strangers_.clear();
  for (Peer& peer : peers_) {
    peer.opened.reset();
    peer.accepted.reset();
  }
}

uint64_t SocketCommunicator::new_number() {
  if (free_numbers_.empty()) {
    states_.emplace_back();
    return states_.size() - 1;
  }
  const uint64_t number = free_numbers_.back();
  free_numbers_.pop_back();
  states_[number] = {};
  return number;
}

Transfer SocketCommunicator::start_send(std::span<const std::byte> bytes, int to, int channel) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(size_t(to));
  const Transfer transfer{to, channel, false, {}, new_number()};
  if (to == rank_) {
    Incoming message{{bytes.begin(), bytes.end()}, {}, bytes.size(), bytes.size(), Transfer::kDone};
    Mailbox& mailbox = peer.mailboxes[channel];
    if (mailbox.awaited.empty()) {
      mailbox.arrived.push_back(std::move(message));
    } else {
      const auto [number, into] = mailbox.awaited.front();
      mailbox.awaited.pop_front();
      finish(number, into, message);
      drop_if_empty(peer, channel);
    }
    states_[transfer.number].done = true;
    return transfer;
  }
  peer.out.push_back({{bytes.size(), channel, kMagic}, bytes, 0, transfer.number});
  if (!peer.has_link()) open_link(to);
  flush(peer);
  return transfer;
}

Transfer SocketCommunicator::start_receive(std::span<std::byte> bytes, int from, int channel) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(size_t(from));
  const Transfer transfer{from, channel, true, bytes, new_number()};
  if (!peer.has_link()) states_[transfer.number].since = Clock::now();
  Mailbox& mailbox = peer.mailboxes[channel];
  const auto unclaimed = std::ranges::find(mailbox.arrived, Transfer::kDone, &Incoming::number);
  if (unclaimed == mailbox.arrived.end()) {
    mailbox.awaited.emplace_back(transfer.number, bytes);
  } else if (!unclaimed->complete()) {  // end_message() completes the receive
    unclaimed->number = transfer.number;
    unclaimed->into = bytes;
  } else {
    finish(transfer.number, bytes, *unclaimed);
    mailbox.arrived.erase(unclaimed);
    drop_if_empty(peer, channel);
  }
  return transfer;
}

/// There are many channels, and each is used only for a while.
void SocketCommunicator::drop_if_empty(Peer& peer, int channel) {
  const auto mailbox = peer.mailboxes.find(channel);
  if (mailbox != peer.mailboxes.end() && mailbox->second.empty()) peer.mailboxes.erase(mailbox);
}

Transfer SocketCommunicator::start_sum(const Values&) { DLFLOW_CHECK(false); }

/// Completes receive `number` with `message`.
void SocketCommunicator::finish(uint64_t number, std::span<std::byte> into, Incoming& message) {
  State& state = states_[number];
  state.done = true;
  if (into.size() != message.size) {
    state.mismatch = message.size;
  } else if (message.size > 0 && message.own.size() == message.size) {
    std::memcpy(into.data(), message.own.data(), message.size);
  }
}

bool SocketCommunicator::done(Transfer& transfer) {
  if (transfer.number == Transfer::kDone) return true;
  const std::lock_guard lock(mutex_);
  if (!states_[transfer.number].done) move();
  const State state = states_[transfer.number];
  if (!state.done) {
    const Peer& peer = peers_[size_t(transfer.peer)];
    if (peer.ended) throw_ended(transfer.peer);
    if (transfer.peer != rank_ && !peer.has_link() &&
        Clock::now() - state.since > kTimeToBeLinked) {
      open_link(transfer.peer);
    }
    return false;
  }
  free_numbers_.push_back(transfer.number);
  transfer.number = Transfer::kDone;
  if (state.mismatch != SIZE_MAX) {
    throw_size_mismatch(rank_, transfer.peer, transfer.received.size(), state.mismatch);
  }
  return true;
}

int SocketCommunicator::sender_on(int channel) {
  const std::lock_guard lock(mutex_);
  move();
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const auto mailbox = peers_[peer].mailboxes.find(channel);
    if (mailbox == peers_[peer].mailboxes.end()) continue;
    if (std::ranges::count(mailbox->second.arrived, Transfer::kDone, &Incoming::number) > 0) {
      return int(peer);
    }
  }
  return -1;
}

void SocketCommunicator::throw_ended(int peer) const {
  const std::string self = "rank " + std::to_string(rank_), other = "rank " + std::to_string(peer),
                    node = " (node " + endpoint_of_rank(peer).node + ")";
  if (!peers_[size_t(peer)].came) {
    throw Error(Errc::Unavailable, self + ": cannot connect to " + other + node +
                                       ": it has ended, or a firewall is between the nodes");
  }
  throw Error(Errc::Unavailable, other + node + " died, or left while " + self +
                                     " still waits for it: its connection is closed");
}

/// The listener, then all links with their ranks.
void SocketCommunicator::list_waiting(std::vector<pollfd>& waiting, Links& links) const {
  waiting.assign(1, {listener_.socket.get(), POLLIN, 0});
  links.clear();
  for (const int rank : linked_) {
    const Peer& peer = peers_[size_t(rank)];
    for (Link* const link : {peer.opened.get(), peer.accepted.get()}) {
      if (link == nullptr || !link->socket) continue;
      const bool sends = link == peer.by && !peer.out.empty();
      waiting.push_back({link->socket.get(), short(POLLIN | (sends ? POLLOUT : 0)), 0});
      links.emplace_back(rank, link);
    }
  }
}

bool SocketCommunicator::sleep_until_it_moves(std::chrono::nanoseconds time) {
  std::vector<pollfd> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (!strangers_.empty()) return false;
    Links links;
    list_waiting(waiting, links);
  }
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(time);
  ::poll(waiting.data(), waiting.size(), int(rounded.count()));
  return true;
}

/// Sends and receives as much as the sockets allow.
void SocketCommunicator::move() {
  static thread_local std::vector<pollfd> waiting;
  static thread_local Links links;
  list_waiting(waiting, links);
  const bool moves = ::poll(waiting.data(), waiting.size(), 0) > 0;
  if (!strangers_.empty() || (moves && waiting[0].revents != 0)) let_in();
  for (size_t i = 0; moves && i < links.size(); ++i) {
    const auto [rank, link] = links[i];
    const short events = waiting[i + 1].revents;
    if (events & (POLLOUT | POLLERR)) flush(peers_[size_t(rank)]);
    if (events & (POLLIN | POLLHUP | POLLERR)) read(rank, *link);
  }
}

/// Sends only by the first link that was ready, so that messages stay in order.
void SocketCommunicator::flush(Peer& peer) {
  for (Link* const link : {peer.opened.get(), peer.accepted.get()}) {
    if (peer.by == nullptr && link != nullptr && link->ready) peer.by = link;
  }
  while (peer.by != nullptr && peer.by->socket && !peer.out.empty()) {
    Outgoing& message = peer.out.front();
    std::array<iovec, 2> parts{};
    msghdr all{};
    all.msg_iov = parts.data();
    const auto add = [&](const void* data, size_t size, size_t skipped) {
      if (skipped >= size) return;
      // sendmsg only reads, but iovec has no const pointer.
      void* const begin = const_cast<std::byte*>(static_cast<const std::byte*>(data) + skipped);
      parts[all.msg_iovlen++] = {begin, size - skipped};
    };
    const size_t header = sizeof message.header;
    add(&message.header, header, message.sent);
    add(message.bytes.data(), message.bytes.size(), message.sent - std::min(message.sent, header));
    const ssize_t sent = ::sendmsg(peer.by->socket.get(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // Data that the peer sent before it ended must still be read: read() then detects the end.
      if (errno != EPIPE && errno != ECONNRESET) peer.ended = true;
      return;
    }
    message.sent += size_t(sent);
    if (message.sent < header + message.bytes.size()) continue;
    states_[message.number].done = true;
    peer.out.pop_front();
  }
}

void SocketCommunicator::read(int rank, Link& link) {
  if (!link.ready && !read_answer(rank, link)) return;
  Peer& peer = peers_[size_t(rank)];
  while (link.socket) {
    const bool in_header = link.arriving == nullptr;
    std::byte* to = reinterpret_cast<std::byte*>(&link.header) + link.header_got;
    size_t room = sizeof link.header - link.header_got;
    if (!in_header) {
      Incoming& message = *link.arriving;
      std::byte* const begin = message.own.empty() ? message.into.data() : message.own.data();
      to = begin + message.got;
      room = message.size - message.got;
    }
    const ssize_t got = ::recv(link.socket.get(), to, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return close(rank, link);
    if (in_header) {
      link.header_got += size_t(got);
      if (link.header_got == sizeof link.header && !begin_message(peer, link)) {
        return close(rank, link);
      }
    } else {
      link.arriving->got += size_t(got);
    }
    if (link.arriving != nullptr && link.arriving->complete()) end_message(peer, link);
    if (size_t(got) < room) return;  // the socket is empty
  }
}

/// Called with a complete header; false if it is invalid.
bool SocketCommunicator::begin_message(Peer& peer, Link& link) {
  link.header_got = 0;
  if (link.header.magic != kMagic) return false;
  const size_t size = link.header.bytes;
  Mailbox& mailbox = peer.mailboxes[link.header.channel];
  if (!mailbox.awaited.empty() && mailbox.awaited.front().second.size() == size) {
    const auto [number, into] = mailbox.awaited.front();
    mailbox.awaited.pop_front();
    link.direct = {{}, into, size, 0, number};
    link.arriving = &link.direct;
    drop_if_empty(peer, link.header.channel);
    return true;
  }
  Incoming message{std::vector<std::byte>(size), {}, size, 0, Transfer::kDone};
  if (!mailbox.awaited.empty()) {  // a receive of another size waits: done() reports it
    std::tie(message.number, message.into) = mailbox.awaited.front();
    mailbox.awaited.pop_front();
  }
  link.arriving = &mailbox.arrived.emplace_back(std::move(message));
  return true;
}

void SocketCommunicator::end_message(Peer& peer, Link& link) {
  Incoming& message = *std::exchange(link.arriving, nullptr);
  if (message.number == Transfer::kDone) return;  // waits for its receive
  finish(message.number, message.into, message);
  if (&message == &link.direct) return;
  peer.mailboxes[link.header.channel].arrived.pop_back();
  drop_if_empty(peer, link.header.channel);
}

std::span<std::byte* const> SocketCommunicator::allocate_shared(size_t bytes) {
  return memories_.emplace_back(*this, bytes).parts();
}

}  // namespace dlflow::runtime
