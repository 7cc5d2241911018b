#include "runtime/comm/meeting.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/endpoint.h"
#include "base/error.h"
#include "base/file.h"
#include "base/socket.h"
#include "base/text.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kTimeToReachHost = 2s;  // per address
constexpr auto kTimeBetweenLooks = 20ms, kMostTimeBetweenLooks = 320ms;
constexpr auto kTimeToAnswer = 30s;         // by rank 0, to which all connect at once
constexpr size_t kMaxTextBytes = 64 << 20;  // of all ranks

/// Each side proves one half of the secret: a stranger on the port of an earlier start cannot
/// impersonate rank 0.
std::string half_of_guest(const Endpoint& host) {
  return host.token.substr(0, host.token.size() / 2);
}
std::string half_of_host(const Endpoint& host) { return host.token.substr(host.token.size() / 2); }

/// Prefixes a text with its size.
std::string framed(const std::string& text) {
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

/// Splits `all` into its consecutive framed texts.
std::vector<std::string> unframed(std::string_view all) {
  std::vector<std::string> texts;
  uint64_t size = 0;
  while (all.size() >= sizeof size) {
    std::memcpy(&size, all.data(), sizeof size);
    all.remove_prefix(sizeof size);
    texts.emplace_back(all.substr(0, size));
    all.remove_prefix(std::min(size, all.size()));
  }
  return texts;
}

bool send(const FileDescriptor& socket, const std::string& framed_texts, Deadline until) {
  return send_all(socket, std::as_bytes(std::span(framed_texts)), until);
}

/// Returns nothing if the peer closes the connection or sends more than `most` bytes, or at the
/// deadline.
std::optional<std::string> receive_text(const FileDescriptor& socket, size_t most, Deadline until) {
  uint64_t size = 0;
  if (!receive_all(socket, std::as_writable_bytes(std::span(&size, 1)), until) || size > most) {
    return std::nullopt;
  }
  std::string text(size, ' ');
  if (!receive_all(socket, std::as_writable_bytes(std::span(text)), until)) return std::nullopt;
  return text;
}

/// Connects to the listener at `place` and verifies its secret; returns no descriptor on failure.
FileDescriptor reach(const Endpoint& place, Deadline deadline) {
  for (const std::string& address : addresses_to_try(place)) {
    FileDescriptor socket = connect_to(address, place.port, kTimeToReachHost);
    const Deadline until = std::min<Deadline>(deadline, Clock::now() + kTimeToAnswer);
    if (socket && send(socket, framed(half_of_guest(place)), until) &&
        receive_text(socket, place.token.size(), until) == half_of_host(place)) {
      return socket;
    }
  }
  return FileDescriptor();
}

/// Accepts the next connection whose peer has the secret of `place`, if one comes within a moment.
/// A stranger costs kTimeForToken.
FileDescriptor let_in(const Listener& listener, const Endpoint& place, Deadline deadline) {
  pollfd waiting{listener.socket.get(), POLLIN, 0};
  ::poll(&waiting, 1, 100);
  FileDescriptor socket = accept_from(listener);
  if (!socket) return socket;
  const Deadline until = std::min<Deadline>(deadline, Clock::now() + kTimeForToken);
  const Endpoint expected{half_of_guest(place), "", 0, {}};
  const auto secret = receive_text(socket, expected.token.size(), until);
  const bool is_guest =
      secret && knows_token(expected, *secret) && send(socket, framed(half_of_host(place)), until);
  return is_guest ? std::move(socket) : FileDescriptor();
}

/// All ranks, by number: each rank's listening address and its own text, framed.
using Guests = std::vector<std::string>;

Endpoint place_of(const std::string& guest) { return endpoint_from(unframed(guest).at(0)); }

/// Passes the list on along a binomial tree from rank 0: `rank` sends it to rank + 2^k, for each
/// 2^k > rank.
void pass_on(const Guests& guests, int rank, std::chrono::milliseconds timeout, Deadline deadline) {
  std::string list;
  for (const std::string& guest : guests) list += framed(guest);
  for (size_t step = std::bit_ceil(size_t(rank) + 1); rank + step < guests.size(); step *= 2) {
    const FileDescriptor socket = reach(place_of(guests[rank + step]), deadline);
    if (socket && send(socket, framed(list), deadline)) continue;
    throw_no_answer(rank, int(rank + step), timeout);
  }
}

/// Registers a connected guest under its number.
void take_down(const FileDescriptor& socket, Guests& guests, Deadline until) {
  const auto rank = receive_text(socket, 16, until);
  const auto guest = receive_text(socket, kMaxTextBytes, until);
  const size_t number = number_from<size_t>(rank.value_or("")).value_or(0);
  if (!guest || unframed(*guest).size() != 2 || number == 0 || number >= guests.size()) return;
  if (send(socket, framed(""), until)) guests[number] = *guest;
}

/// Rank 0: admits all other ranks; each has kTimeForToken to identify itself.
Guests receive_guests(const std::filesystem::path& file, int size, const std::string& own,
                      std::chrono::milliseconds timeout, Deadline deadline) {
  const Listener listener = listen_anywhere();
  const Endpoint host = endpoint_of(listener);
  Guests guests(static_cast<size_t>(size));
  guests[0] = framed(to_string(host)) + framed(own);
  write_file_atomic(file, to_string(host));
  const auto missing = [&] { return std::ranges::find(guests, "") - guests.begin(); };
  while (missing() < size) {
    if (Clock::now() > deadline) throw_no_answer(0, int(missing()), timeout);
    const FileDescriptor socket = let_in(listener, host, deadline);
    if (socket)
      take_down(socket, guests, std::min<Deadline>(deadline, Clock::now() + kTimeForToken));
  }
  std::filesystem::remove(file);
  return guests;
}

/// Whether rank 0 has registered this guest.
bool visit(const Endpoint& host, int rank, const std::string& guest, Deadline deadline) {
  const FileDescriptor socket = reach(host, deadline);
  return socket && send(socket, framed(std::to_string(rank)) + framed(guest), deadline) &&
         receive_text(socket, 0, deadline);
}

/// Other ranks: registers with rank 0, then waits for the list.
Guests receive_list(const std::filesystem::path& file, int rank, const std::string& own,
                    std::chrono::milliseconds timeout, Deadline deadline) {
  const Listener listener = listen_anywhere();
  const Endpoint place = endpoint_of(listener);
  const std::string guest = framed(to_string(place)) + framed(own);
  for (auto pause = kTimeBetweenLooks;; pause = std::min(2 * pause, kMostTimeBetweenLooks)) {
    const auto host = read_private_file(file);
    if (host && visit(endpoint_from(*host), rank, guest, deadline)) break;
    if (Clock::now() > deadline) throw_no_answer(rank, 0, timeout);
    std::this_thread::sleep_for(pause);
  }
  while (Clock::now() < deadline) {
    const FileDescriptor socket = let_in(listener, place, deadline);
    const auto list = socket ? receive_text(socket, kMaxTextBytes, deadline) : std::nullopt;
    if (list) return unframed(*list);
  }
  throw_no_answer(rank, rank - int(std::bit_floor(unsigned(rank))), timeout);
}

}  // namespace

std::vector<std::string> meet(const std::filesystem::path& file, int rank, int size,
                              const std::string& own, std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  const Guests guests = rank == 0 ? receive_guests(file, size, own, timeout, deadline)
                                  : receive_list(file, rank, own, timeout, deadline);
  pass_on(guests, rank, timeout, deadline);
  std::vector<std::string> texts;
  for (const std::string& guest : guests) texts.push_back(unframed(guest).at(1));
  return texts;
}

}  // namespace dlflow::runtime
