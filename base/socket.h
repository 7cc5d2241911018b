#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"

/// TCP between the processes of a job. All sockets are non-blocking and close on exec.
namespace dlflow {

struct Listener {
  FileDescriptor socket;
  uint16_t port = 0;
};

/// Listens on every address of this machine, at a port that the kernel chooses. Throws Error.
Listener listen_anywhere();

/// The next waiting connection, or none. Throws Error if too many files are open.
FileDescriptor accept_from(const Listener& listener);

/// Numeric addresses at which other machines may reach this one: those of all interfaces that are
/// up, except loopback and link-local addresses.
std::vector<std::string> own_addresses();

/// A connection to a numeric address, or none if it fails within `limit`. Throws Error if too many
/// files are open.
FileDescriptor connect_to(const std::string& address, uint16_t port,
                          std::chrono::milliseconds limit);

using Deadline = std::chrono::steady_clock::time_point;

/// Sends all of `bytes`. False if the other side closed the connection, or after the deadline.
bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes, Deadline until);

/// Fills `bytes`. False in the same cases as send_all.
bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes, Deadline until);

/// Raises the limit on files, and so on connections, that this process may have open at a time, to
/// `wanted`, or to the user's maximum (the hard limit) if that is less. Never lowers it.
void allow_open_files(size_t wanted);

/// Throws the Error, which names the limit, for a call that failed with EMFILE or ENFILE.
[[noreturn]] void throw_too_many_open_files();

}  // namespace dlflow
