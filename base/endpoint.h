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

/// A connected process must show the token within this time, and at most this many connections may
/// be waiting to do so: strangers get no more of a process's descriptors.
constexpr std::chrono::seconds kTimeForToken{2};
constexpr size_t kMaxStrangers = 64;

/// Whether `shown` is the token. Takes constant time, so as not to reveal how much is right.
bool knows_token(const Endpoint& endpoint, std::string_view shown);

/// The endpoint of `listener` on this machine, with a new token. Throws Error.
Endpoint endpoint_of(const Listener& listener);

/// The addresses to try, in turn. Bridges and containers of other machines may have the same
/// addresses, so a connection counts only if the process has the token, too.
std::vector<std::string> addresses_to_try(const Endpoint& endpoint);

std::string to_string(const Endpoint& endpoint);
Endpoint endpoint_from(const std::string& text);

}  // namespace dlflow
