#include "runtime/cache/peer_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/cache/peer_protocol.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToSend = 10s;  // a chunk, to whoever has asked for it

bool send_answer(const FileDescriptor& socket, PeerAnswer answer, bool more = false) {
  const auto byte = std::byte(answer);
  return send_all(socket, {&byte, 1}, Clock::now() + kTimeToSend, more) == Transferred::All;
}

}  // namespace

PeerServer::PeerServer(const ChunkedDataset& data, NodePart& part, size_t num_threads)
    : data_(data),
      part_(part),
      listener_(listen_anywhere()),
      endpoint_(endpoint_of(listener_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DLFLOW_CHECK(endpoint_.token.size() == kPeerTokenBytes);
  if (!wake_) throw_errno("an eventfd", errno);
  for (size_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

PeerServer::~PeerServer() {
  for (std::jthread& thread : threads_) thread.request_stop();
  wake();
  threads_.clear();
  for (const Connection& connection : idle_) {
    if (connection.is_known) send_answer(connection.socket, PeerAnswer::Leaving);
  }
}

void PeerServer::wake() const { ::eventfd_write(wake_.get(), 1); }

void PeerServer::work(const std::stop_token& stop) {
  become_background_thread();
  std::vector<std::byte> room(data_.chunk_bytes());
  while (auto connection = next_that_asks(stop)) {
    if (answer(*connection, room, stop)) give_back(std::move(*connection));
  }
}

/// Nothing once it is to stop.
std::optional<PeerServer::Connection> PeerServer::next_that_asks(const std::stop_token& stop) {
  const std::lock_guard waiting(waiting_);
  while (!stop.stop_requested()) {
    const bool has_strangers = send_strangers_away();
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const Connection& connection : idle_) {
        polled.push_back({connection.socket.get(), POLLIN, 0});
      }
    }
    constexpr std::chrono::milliseconds kLook = kTimeForToken;
    if (::poll(polled.data(), polled.size(), has_strangers ? int(kLook.count()) : -1) < 0) continue;
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
    if (polled[1].revents != 0) admit();
    std::vector<bool> asks;
    for (size_t i = 2; i < polled.size(); ++i) asks.push_back(polled[i].revents != 0);
    if (auto first = take_first(asks)) return first;
  }
  wake();  // the next one that waits
  return std::nullopt;
}

/// Whoever comes, if this process may have another connection.
void PeerServer::admit() {
  FileDescriptor socket = accept_from(listener_);
  if (!socket) std::this_thread::sleep_for(1ms);  // it stays ready until there is one less
  give_back({.socket = std::move(socket), .until = Clock::now() + kTimeForToken});
}

/// Hangs up on those who had their time, and on the oldest of too many. False if none is left.
bool PeerServer::send_strangers_away() {
  const std::lock_guard lock(mutex_);
  size_t strangers = size_t(std::ranges::count(idle_, false, &Connection::is_known));
  std::erase_if(idle_, [&, now = Clock::now()](const Connection& connection) {
    const bool goes = !connection.is_known && (strangers > kMaxStrangers || connection.until < now);
    if (goes) --strangers;
    return goes;
  });
  return strangers > 0;
}

/// The first connection of those that ask. What came back meanwhile stands behind them, so that
/// each has its turn.
std::optional<PeerServer::Connection> PeerServer::take_first(const std::vector<bool>& asks) {
  for (size_t i = 0; i < asks.size(); ++i) {
    if (!asks[i]) continue;
    const std::lock_guard lock(mutex_);
    Connection connection = std::move(idle_[i]);
    idle_.erase(idle_.begin() + std::ptrdiff_t(i));
    return connection;
  }
  return std::nullopt;
}

void PeerServer::give_back(Connection connection) {
  if (!connection.socket) return;
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
  }
  wake();
}

/// False: hang up.
bool PeerServer::answer(Connection& connection, std::span<std::byte> room,
                        const std::stop_token& stop) {
  if (!connection.is_known) return welcome(connection);
  uint32_t chunk = 0;
  const auto deadline = Clock::now() + kTimeToSend;
  if (receive_all(connection.socket, std::as_writable_bytes(std::span(&chunk, 1)), deadline) !=
          Transferred::All ||
      chunk >= data_.num_chunks() || !part_.keeps(chunk)) {
    return false;
  }
  std::span<const std::byte> content;
  try {
    content = part_.get(chunk, room.first(data_.chunk(chunk).bytes), stop);
  } catch (const std::exception&) {  // whoever asks finds out for itself, from the source
    return send_answer(connection.socket, PeerAnswer::Failed);
  }
  return send_answer(connection.socket, PeerAnswer::Here, true) &&
         send_all(connection.socket, content, Clock::now() + kTimeToSend) == Transferred::All;
}

/// Takes what has arrived of the token; no thread waits for the rest.
bool PeerServer::welcome(Connection& connection) const {
  std::array<char, kPeerTokenBytes> rest{};
  const size_t missing = kPeerTokenBytes - connection.said.size();
  const ssize_t got = ::recv(connection.socket.get(), rest.data(), missing, 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  connection.said.append(rest.data(), size_t(got));
  if (connection.said.size() < kPeerTokenBytes) return true;
  if (!knows_token(endpoint_, connection.said)) return false;
  connection.is_known = true;
  return send_answer(connection.socket, PeerAnswer::Welcome);
}

}  // namespace dlflow::runtime
