#include "base/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "base/error.h"

namespace dlflow {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

using Addresses = Handle<addrinfo, freeaddrinfo>;
using Interfaces = Handle<ifaddrs, freeifaddrs>;

/// Disables Nagle's algorithm: messages are short, or a receiver waits for them.
void send_at_once(const FileDescriptor& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Addresses resolve(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  return Addresses(failure == 0 ? found : nullptr);
}

/// Takes the result of a call that opens a socket. Throws Error if too many files are open.
FileDescriptor opened(int descriptor) {
  if (descriptor < 0 && (errno == EMFILE || errno == ENFILE)) throw_too_many_open_files();
  return FileDescriptor(descriptor);
}

bool is_for_now(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// Waits for an event; false after the deadline.
bool wait_until(const FileDescriptor& socket, short events, Deadline until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd waiting{socket.get(), events, 0};
  ::poll(&waiting, 1, int(left.count()));
  return true;
}

bool is_connected(const FileDescriptor& socket, std::chrono::milliseconds limit) {
  const Deadline until = std::chrono::steady_clock::now() + limit;
  pollfd waiting{socket.get(), POLLOUT, 0};
  while (::poll(&waiting, 1, 0) != 1) {
    if (!wait_until(socket, POLLOUT, until)) return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/// Also works on nodes with only one of IPv4 and IPv6.
FileDescriptor bind_anywhere() {
  FileDescriptor both = opened(::socket(AF_INET6, kKind, 0));
  const int off = 0;
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  if (both && ::setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      ::bind(both.get(), reinterpret_cast<sockaddr*>(&any6), sizeof any6) == 0) {
    return both;
  }
  FileDescriptor old(::socket(AF_INET, kKind, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!old || ::bind(old.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
    throw_errno("a socket to listen on", errno);
  }
  return old;
}

rlimit limit_of_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

Listener listen_anywhere() {
  Listener listener{bind_anywhere(), 0};
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::listen(listener.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    throw_errno("a socket to listen on", errno);
  }
  listener.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                        : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return listener;
}

FileDescriptor accept_from(const Listener& listener) {
  FileDescriptor socket =
      opened(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) send_at_once(socket);
  return socket;
}

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const Interfaces all(first);
  std::vector<std::string> addresses;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) {
      continue;
    }
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(at->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

FileDescriptor connect_to(const std::string& address, uint16_t port,
                          std::chrono::milliseconds limit) {
  const Addresses target = resolve(address, port);
  if (!target) return {};
  FileDescriptor socket = opened(::socket(target->ai_family, kKind, 0));
  if (!socket) return {};
  const int status = ::connect(socket.get(), target->ai_addr, target->ai_addrlen);
  if ((status != 0 && errno != EINPROGRESS) || !is_connected(socket, limit)) return {};
  send_at_once(socket);
  return socket;
}

bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(size_t(sent));
    } else if ((sent < 0 && !is_for_now(errno)) || !wait_until(socket, POLLOUT, until)) {
      return false;
    }
  }
  return true;
}

bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(size_t(got));
    } else if (got == 0 || !is_for_now(errno) || !wait_until(socket, POLLIN, until)) {
      return false;
    }
  }
  return true;
}

void allow_open_files(size_t wanted) {
  rlimit limit = limit_of_open_files();
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void throw_too_many_open_files() {
  const rlimit limit = limit_of_open_files();
  throw Error(
      Errc::Unavailable,
      "this process may open at most " + std::to_string(limit.rlim_cur) +
          " files and connections (its hard limit is " + std::to_string(limit.rlim_max) +
          "), but it needs more: raise the hard limit in /etc/security/limits.conf (nofile), or "
          "with LimitNOFILE= in the service that starts the job, such as slurmd");
}

}  // namespace dlflow
