#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

/// How long somebody who has connected may take to show the token, and how many may be about to:
/// strangers get no more of a process's descriptors.
constexpr std::chrono::seconds kTimeForToken{2};
constexpr size_t kMaxStrangers = 64;

/// Whether `shown` is the token, in a time that does not tell how much of it is right.
bool knows_token(const Endpoint& endpoint, std::string_view shown);

/// Of this machine, with a new token. Throws Error.
Endpoint endpoint_of(const Listener& listener);

/// Where to try it, in turn: other machines may have the addresses of bridges and containers, so
/// that only who knows the token, too, is the one.
std::vector<std::string> addresses_to_try(const Endpoint& endpoint);

std::string to_string(const Endpoint& endpoint);
Endpoint endpoint_from(const std::string& text);

}  // namespace dlflow
