#include "runtime/comm/meeting.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/endpoint.h"
#include "base/error.h"
#include "base/file.h"
#include "base/socket.h"
#include "base/text.h"
#include "runtime/comm/messages.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kTimeToReachHost = 2s;  // to each address
constexpr auto kTimeBetweenLooks = 20ms;
constexpr size_t kMaxTextBytes = 64 << 20;  // of all ranks

/// Each side shows the other one half of the secret: a stranger who has the port of an earlier
/// start cannot pretend to be rank 0.
std::string half_of_guest(const Endpoint& host) {
  return host.token.substr(0, host.token.size() / 2);
}
std::string half_of_host(const Endpoint& host) { return host.token.substr(host.token.size() / 2); }

bool send_text(const FileDescriptor& socket, const std::string& text, Deadline until) {
  const uint64_t size = text.size();
  return send_all(socket, std::as_bytes(std::span(&size, 1)), until) &&
         send_all(socket, std::as_bytes(std::span(text)), until);
}

/// Returns nothing if the other side closes the connection or sends more than `most` bytes, or if
/// the time is over.
std::optional<std::string> receive_text(const FileDescriptor& socket, size_t most, Deadline until) {
  uint64_t size = 0;
  if (!receive_all(socket, std::as_writable_bytes(std::span(&size, 1)), until) || size > most) {
    return std::nullopt;
  }
  std::string text(size, ' ');
  if (!receive_all(socket, std::as_writable_bytes(std::span(text)), until)) return std::nullopt;
  return text;
}

/// Rank 0 and those that have come to it.
class Host {
 public:
  Host(int size, const std::string& own) : guests_(size_t(size)), texts_(size_t(size)) {
    texts_[0] = own;
  }

  std::string place() const { return to_string(endpoint_); }

  /// Lets the next one in that waits. Whoever does not know the secret costs kTimeForToken.
  void let_in(Deadline deadline) {
    pollfd waiting{listener_.socket.get(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    FileDescriptor socket = accept_from(listener_);
    if (!socket) return;
    const Deadline until = std::min(deadline, Clock::now() + kTimeForToken);
    const Endpoint expected{half_of_guest(endpoint_), "", 0, {}};
    const auto secret = receive_text(socket, expected.token.size(), until);
    if (!secret || !knows_token(expected, *secret)) return;
    const auto rank = receive_text(socket, 16, until);
    const auto text = receive_text(socket, kMaxTextBytes, until);
    const auto number = rank ? number_from<size_t>(*rank) : std::nullopt;
    if (!text || !number || *number == 0 || *number >= guests_.size()) return;
    guests_[*number] = std::move(socket);  // one that comes again has lost its connection
    texts_[*number] = *text;
  }

  /// The first rank that is not there; 0: all are.
  int missing() const {
    for (size_t rank = 1; rank < guests_.size(); ++rank) {
      if (!guests_[rank]) return int(rank);
    }
    return 0;
  }

  std::vector<std::string> tell_all(Deadline deadline) {
    for (size_t rank = 1; rank < guests_.size(); ++rank) {
      send_text(guests_[rank], half_of_host(endpoint_), deadline);
      for (const std::string& text : texts_) send_text(guests_[rank], text, deadline);
    }
    return texts_;
  }

 private:
  Listener listener_ = listen_anywhere();
  Endpoint endpoint_ = endpoint_of(listener_);
  std::vector<FileDescriptor> guests_;  // by rank
  std::vector<std::string> texts_;
};

std::vector<std::string> receive_guests(const std::filesystem::path& file, int size,
                                        const std::string& own, std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  Host host(size, own);
  write_file_atomic(file, host.place());
  while (host.missing() != 0) {
    if (Clock::now() > deadline) throw_no_answer(0, host.missing(), timeout);
    host.let_in(deadline);
  }
  std::filesystem::remove(file);
  return host.tell_all(deadline);
}

/// A connection to rank 0, or none: it is not there yet, or the file is of an earlier start.
FileDescriptor connect_to_host(const Endpoint& host) {
  for (const std::string& address : addresses_to_try(host)) {
    if (FileDescriptor socket = connect_to(address, host.port, kTimeToReachHost)) return socket;
  }
  return FileDescriptor();
}

/// Returns the answer of rank 0; nothing if there is none.
std::vector<std::string> visit(const Endpoint& host, int rank, int size, const std::string& own,
                               Deadline deadline) {
  const FileDescriptor socket = connect_to_host(host);
  if (!socket || !send_text(socket, half_of_guest(host), deadline) ||
      !send_text(socket, std::to_string(rank), deadline) || !send_text(socket, own, deadline) ||
      receive_text(socket, host.token.size(), deadline) != half_of_host(host)) {
    return {};
  }
  std::vector<std::string> texts;
  while (texts.size() < size_t(size)) {
    auto text = receive_text(socket, kMaxTextBytes, deadline);
    if (!text) return {};
    texts.push_back(std::move(*text));
  }
  return texts;
}

}  // namespace

std::vector<std::string> meet(const std::filesystem::path& file, int rank, int size,
                              const std::string& own, std::chrono::milliseconds timeout) {
  if (rank == 0) return receive_guests(file, size, own, timeout);
  for (const Deadline deadline = Clock::now() + timeout; Clock::now() < deadline;
       std::this_thread::sleep_for(kTimeBetweenLooks)) {
    const auto place = read_private_file(file);
    if (!place) continue;
    auto texts = visit(endpoint_from(*place), rank, size, own, deadline);
    if (!texts.empty()) return texts;
  }
  throw_no_answer(rank, 0, timeout);
}

}  // namespace dlflow::runtime
