#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/handle.h"

/// TCP as the side channel needs it. All sockets are non-blocking and close on exec.
namespace dlflow::runtime {

struct Listener {
  FileDescriptor socket;
  uint16_t port = 0;
};

/// On every address of this machine, at a port that the kernel chooses. Throws Error.
Listener listen_anywhere();

/// The next connection that waits, or none.
FileDescriptor accept_from(const Listener& listener);

/// Where other machines may reach this one, as numbers: all addresses of interfaces that are up,
/// but for loopback and what is valid on one link only.
std::vector<std::string> own_addresses();

/// A connection to a numeric address, or none within `limit`.
FileDescriptor connect_to(const std::string& address, uint16_t port,
                          std::chrono::milliseconds limit);

}  // namespace dlflow::runtime
