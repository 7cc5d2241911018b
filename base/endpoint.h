#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"

namespace dlflow {

/// The address at which a process of a job listens, as text that it sends to the others.
struct Endpoint {
  std::string token;  ///< proves that a process belongs to the job
  std::string node;
  uint16_t port = 0;
  std::vector<std::string> addresses;

  bool operator==(const Endpoint&) const = default;
};

/// The time in which a connected process must show the token, and the number of connections that
/// may be waiting for that: strangers get no more of a process's descriptors.
constexpr std::chrono::seconds kTimeForToken{2};
constexpr size_t kMaxStrangers = 64;

/// Whether `shown` is the token, in a time that does not depend on how much of it is right.
bool knows_token(const Endpoint& endpoint, std::string_view shown);

/// Of this machine, with a new token. Throws Error.
Endpoint endpoint_of(const Listener& listener);

/// The addresses to try, in turn. Bridges and containers of other machines may have the same
/// addresses, so only a process that has the token, too, is the right one.
std::vector<std::string> addresses_to_try(const Endpoint& endpoint);

std::string to_string(const Endpoint& endpoint);
Endpoint endpoint_from(const std::string& text);

}  // namespace dlflow
