#include "runtime/comm/socket_communicator.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/process.h"
#include "runtime/comm/messages.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x646c666c;  // "dlfl"
constexpr size_t kTokenBytes = 32;
constexpr auto kTimeToConnect = std::chrono::seconds(2);  // to each address

/// The first that a rank says to the one that it connects to; the answer is its magic.
struct Hello {
  uint32_t magic;
  int32_t rank;
  std::array<char, kTokenBytes> token;
};

std::string first_line(const char* path) {
  std::string line;
  std::ifstream(path) >> line;
  return line;
}

/// "pid:[4026531836]". By the link's text: proot, of udocker, shows no file behind it. One that is
/// not to be seen is nobody else's.
std::string name_space(const std::string& kind) {
  std::error_code error;
  const std::string text = std::filesystem::read_symlink("/proc/self/ns/" + kind, error);
  return error ? std::to_string(::getpid()) + "@" + host_name() : text;
}

/// The same text for processes that find each other's DescriptorMailbox: one boot of one machine,
/// one network, one user.
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
  throw Error(Errc::InvalidInput, "'" + memory_ + "' is no name of a memory: it has blanks");
}

std::string SocketEndpoint::text() const { return memory_ + ' ' + to_string(endpoint_); }

SocketCommunicator::SocketCommunicator(SocketEndpoint own, int rank,
                                       const std::vector<std::string>& endpoints,
                                       std::chrono::milliseconds timeout)
    : rank_(rank), timeout_(timeout), peers_(endpoints.size()) {
  DLFLOW_CHECK(rank >= 0 && size_t(rank) < endpoints.size());
  std::vector<std::string> memories;
  std::vector<Endpoint> all;
  for (const std::string& text : endpoints) {
    const size_t blank = text.find(' ');
    memories.push_back(text.substr(0, blank));
    all.push_back(endpoint_from(blank == std::string::npos ? "" : text.substr(blank + 1)));
    peers_[all.size() - 1].node = all.back().node;
    if (all.back().token.size() == kTokenBytes && all.back().port != 0) continue;
    throw Error(Errc::InvalidInput, "rank " + std::to_string(all.size() - 1) +
                                        ": its address is not one that this version wrote: '" +
                                        text + "'; start all ranks with one version");
  }
  share_out_nodes(memories);
  connect_all(own.listener_, own.endpoint_.token, all);
}

void SocketCommunicator::share_out_nodes(const std::vector<std::string>& memories) {
  std::vector<std::string> known;
  for (size_t rank = 0; rank < memories.size(); ++rank) {
    const auto node = std::ranges::find(known, memories[rank]);
    nodes_.push_back(int(node - known.begin()));
    if (node == known.end()) known.push_back(memories[rank]);
    if (memories[rank] != memories[size_t(rank_)]) continue;
    if (int(rank) == rank_) node_rank_ = int(node_ranks_.size());
    node_ranks_.push_back(int(rank));
  }
}

/// A rank connects to all before it, then is there for all behind it. Rank 0 is there at once, so
/// that nobody waits for ever.
void SocketCommunicator::connect_all(const Listener& listener, const std::string& own_token,
                                     const std::vector<Endpoint>& endpoints) {
  const auto deadline = Clock::now() + timeout_;
  for (int peer = 0; peer < rank_; ++peer) connect(peer, endpoints[size_t(peer)], deadline);
  for (int missing = size() - 1 - rank_; missing > 0;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      int absent = rank_ + 1;
      while (peers_[size_t(absent)].socket) ++absent;
      throw_no_answer(rank_, absent, timeout_);
    }
    pollfd waiting{listener.socket.get(), POLLIN, 0};
    ::poll(&waiting, 1, int(std::min<int64_t>(left.count(), 1000)));
    if (accept(listener, own_token, deadline)) --missing;
  }
}

/// To one of a lower rank, by the first of its addresses that answers.
void SocketCommunicator::connect(int peer, const Endpoint& endpoint, Clock::time_point deadline) {
  for (const std::string& address : addresses_to_try(endpoint)) {
    FileDescriptor socket = connect_to(address, endpoint.port, kTimeToConnect);
    if (!socket) continue;
    Hello hello{kMagic, rank_, {}};
    std::ranges::copy(endpoint.token, hello.token.begin());
    uint32_t answer = 0;
    if (!send_all(socket, bytes_of(hello), deadline) ||
        !receive_all(socket, bytes_of(answer), deadline) || answer != kMagic) {
      continue;
    }
    peers_[size_t(peer)].socket = std::move(socket);
    return;
  }
  throw Error(Errc::Unavailable, "rank " + std::to_string(rank_) + ": cannot connect to rank " +
                                     std::to_string(peer) + " (node " + endpoint.node +
                                     "): it has ended, or a firewall is between the nodes");
}

/// Whether who waits at `listener` is a rank that was missing: of a higher number, and it knows the
/// token. A stranger who says nothing costs kTimeForToken.
bool SocketCommunicator::accept(const Listener& listener, const std::string& own_token,
                                Clock::time_point deadline) {
  FileDescriptor socket = accept_from(listener);
  Hello hello{};
  const auto until = std::min(deadline, Clock::now() + kTimeForToken);
  if (!socket || !receive_all(socket, bytes_of(hello), until)) return false;
  const Endpoint self{own_token, "", 0, {}};
  if (hello.magic != kMagic || hello.rank <= rank_ || hello.rank >= size() ||
      peers_[size_t(hello.rank)].socket ||
      !knows_token(self, {hello.token.data(), hello.token.size()})) {
    return false;
  }
  uint32_t answer = kMagic;
  if (!send_all(socket, bytes_of(answer), deadline)) return false;
  peers_[size_t(hello.rank)].socket = std::move(socket);
  return true;
}

void SocketCommunicator::close_in_child() {
  for (Peer& peer : peers_) peer.socket.reset();
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
  flush(peer);
  return transfer;
}

Transfer SocketCommunicator::start_receive(std::span<std::byte> bytes, int from, int channel) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(size_t(from));
  const Transfer transfer{from, channel, true, bytes, new_number()};
  Mailbox& mailbox = peer.mailboxes[channel];
  const auto unclaimed = std::ranges::find(mailbox.arrived, Transfer::kDone, &Incoming::number);
  if (unclaimed == mailbox.arrived.end()) {
    mailbox.awaited.emplace_back(transfer.number, bytes);
  } else if (!unclaimed->complete()) {  // end_message() finds it
    unclaimed->number = transfer.number;
    unclaimed->into = bytes;
  } else {
    finish(transfer.number, bytes, *unclaimed);
    mailbox.arrived.erase(unclaimed);
    drop_if_empty(peer, channel);
  }
  return transfer;
}

/// Channels are many, and each is used for a while.
void SocketCommunicator::drop_if_empty(Peer& peer, int channel) {
  const auto mailbox = peer.mailboxes.find(channel);
  if (mailbox != peer.mailboxes.end() && mailbox->second.empty()) peer.mailboxes.erase(mailbox);
}

Transfer SocketCommunicator::start_sum(const Values&) { DLFLOW_CHECK(false); }

/// `message` is what the receive gets.
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
    if (peers_[size_t(transfer.peer)].ended) throw_ended(transfer.peer);
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
  throw Error(Errc::Unavailable, "rank " + std::to_string(peer) + " (node " +
                                     peers_[size_t(peer)].node + ") died, or has left while rank " +
                                     std::to_string(rank_) +
                                     " still waits for it: its connection is closed");
}

/// Sends and receives what the sockets take and have.
void SocketCommunicator::move() {
  static thread_local std::vector<pollfd> waiting;
  static thread_local std::vector<Peer*> peers;
  waiting.clear();
  peers.clear();
  for (Peer& peer : peers_) {
    if (!peer.socket || peer.ended) continue;
    waiting.push_back({peer.socket.get(), short(POLLIN | (peer.out.empty() ? 0 : POLLOUT)), 0});
    peers.push_back(&peer);
  }
  if (::poll(waiting.data(), waiting.size(), 0) <= 0) return;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents & (POLLOUT | POLLERR)) flush(*peers[i]);
    if (waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) read(*peers[i]);
  }
}

void SocketCommunicator::flush(Peer& peer) {
  while (!peer.out.empty() && !peer.ended) {
    Outgoing& message = peer.out.front();
    std::array<iovec, 2> parts{};
    msghdr all{};
    all.msg_iov = parts.data();
    const auto add = [&](const void* data, size_t size, size_t skipped) {
      if (skipped >= size) return;
      // sendmsg only reads, but iovec knows no const.
      void* const begin = const_cast<std::byte*>(static_cast<const std::byte*>(data) + skipped);
      parts[all.msg_iovlen++] = {begin, size - skipped};
    };
    const size_t header = sizeof message.header;
    add(&message.header, header, message.sent);
    add(message.bytes.data(), message.bytes.size(), message.sent - std::min(message.sent, header));
    const ssize_t sent = ::sendmsg(peer.socket.get(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // What it sent before it ended is still to be read: read() says that it has ended.
      if (errno != EPIPE && errno != ECONNRESET) peer.ended = true;
      return;
    }
    message.sent += size_t(sent);
    if (message.sent < header + message.bytes.size()) continue;
    states_[message.number].done = true;
    peer.out.pop_front();
  }
}

void SocketCommunicator::read(Peer& peer) {
  for (;;) {
    const bool in_header = peer.arriving == nullptr;
    std::byte* to = reinterpret_cast<std::byte*>(&peer.header) + peer.header_got;
    size_t room = sizeof peer.header - peer.header_got;
    if (!in_header) {
      Incoming& message = *peer.arriving;
      std::byte* const begin = message.own.empty() ? message.into.data() : message.own.data();
      to = begin + message.got;
      room = message.size - message.got;
    }
    const ssize_t got = ::recv(peer.socket.get(), to, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      peer.ended = true;
      return;
    }
    if (in_header) {
      peer.header_got += size_t(got);
      if (peer.header_got == sizeof peer.header && !begin_message(peer)) return;
    } else {
      peer.arriving->got += size_t(got);
    }
    if (peer.arriving != nullptr && peer.arriving->complete()) end_message(peer);
    if (size_t(got) < room) return;  // the socket is empty
  }
}

/// The header is there. False if it is none.
bool SocketCommunicator::begin_message(Peer& peer) {
  peer.header_got = 0;
  if (peer.header.magic != kMagic) {
    peer.ended = true;
    return false;
  }
  const size_t size = peer.header.bytes;
  Mailbox& mailbox = peer.mailboxes[peer.header.channel];
  if (!mailbox.awaited.empty() && mailbox.awaited.front().second.size() == size) {
    const auto [number, into] = mailbox.awaited.front();
    mailbox.awaited.pop_front();
    peer.direct = {{}, into, size, 0, number};
    peer.arriving = &peer.direct;
    drop_if_empty(peer, peer.header.channel);
    return true;
  }
  Incoming message{std::vector<std::byte>(size), {}, size, 0, Transfer::kDone};
  if (!mailbox.awaited.empty()) {  // of another size: done() says so
    std::tie(message.number, message.into) = mailbox.awaited.front();
    mailbox.awaited.pop_front();
  }
  peer.arriving = &mailbox.arrived.emplace_back(std::move(message));
  return true;
}

void SocketCommunicator::end_message(Peer& peer) {
  Incoming& message = *std::exchange(peer.arriving, nullptr);
  if (message.number == Transfer::kDone) return;  // waits for its receive
  finish(message.number, message.into, message);
  if (&message == &peer.direct) return;
  peer.mailboxes[peer.header.channel].arrived.pop_back();
  drop_if_empty(peer, peer.header.channel);
}

std::span<std::byte* const> SocketCommunicator::allocate_shared(size_t bytes) {
  return memories_.emplace_back(*this, bytes).parts();
}

}  // namespace dlflow::runtime
