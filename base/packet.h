#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/handle.h"

/// Packets of a SOCK_SEQPACKET socket that carry copies of open descriptors.
namespace dlflow {

/// As send(2): the receiver gets copies of `descriptors`, and the sender keeps its own.
ssize_t send_packet(int socket, std::string_view bytes, std::span<const int> descriptors,
                    int flags);

/// As recv(2). Adds the packet's descriptors to `descriptors`.
ssize_t receive_packet(int socket, std::span<char> bytes, std::vector<FileDescriptor>& descriptors,
                       int flags);

}  // namespace dlflow
