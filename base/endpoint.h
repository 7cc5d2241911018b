#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/socket.h"

namespace dlflow {

/// Where a process of a job listens, as text that it sends to the others.
struct Endpoint {
  std::string token;  ///< who does not know it is none of us
  std::string node;
  uint16_t port = 0;
  std::vector<std::string> addresses;

  bool operator==(const Endpoint&) const = default;
};

/// Of this machine, with a new token. Throws Error.
Endpoint endpoint_of(const Listener& listener);

/// Where to try it, in turn: other machines may have the addresses of bridges and containers, so
/// that only who knows the token, too, is the one.
std::vector<std::string> addresses_to_try(const Endpoint& endpoint);

std::string to_string(const Endpoint& endpoint);
Endpoint endpoint_from(const std::string& text);

}  // namespace dlflow
