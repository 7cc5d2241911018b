#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "engine/ranks/rank_nodes.h"

namespace dlflow {
namespace {

constexpr int kFirst = 20000;
constexpr int kEnd = 65536;
constexpr int kTries = 1000;

/// The range from which the kernel assigns ports to connections.
std::pair<int, int> ephemeral_ports() {
  int first = 32768;
  int last = 60999;
  const auto text = read_file_if_exists("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  std::sscanf(text.c_str(), "%d %d", &first, &last);
  return {first, last};
}

bool can_bind(const sockaddr* address, socklen_t length) {
  const FileDescriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return true;  // the protocol does not exist here
  return ::bind(socket.get(), address, length) == 0 || errno == EADDRNOTAVAIL;
}

bool is_free(int port) {
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(uint16_t(port));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(uint16_t(port));
  return can_bind(reinterpret_cast<const sockaddr*>(&any4), sizeof any4) &&
         can_bind(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
}

}  // namespace

int free_port() {
  const auto [first, last] = ephemeral_ports();
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirst, kEnd - 1);
  for (int i = 0; i < kTries; ++i) {
    const int port = ports(random);
    // The second half of the tries accepts this range, in case it covers all ports.
    const bool is_ephemeral = port >= first && port <= last && i < kTries / 2;
    if (!is_ephemeral && is_free(port)) return port;
  }
  throw Error(Errc::Unavailable, "no TCP port of " + std::to_string(kFirst) + " to " +
                                     std::to_string(kEnd - 1) + " is free on this machine");
}

}  // namespace dlflow
