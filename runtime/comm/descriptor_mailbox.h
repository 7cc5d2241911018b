#pragma once

#include <array>
#include <cstdint>

#include "base/handle.h"

namespace dlflow::runtime {

/// Receives copies of open descriptors from processes of the same user in the same network
/// namespace. It also works between containers, whose separate user and process namespaces forbid
/// opening another process's files below /proc.
class DescriptorMailbox {
 public:
  /// An abstract address of a Unix socket, chosen by the kernel.
  using Address = std::array<char, 6>;

  /// \param most  the number of senders that may be queued. Throws Error.
  explicit DescriptorMailbox(int most);

  const Address& address() const { return address_; }

  /// Sends a copy of `descriptor` to that mailbox, in the name of `sender`. Returns at once. Throws
  /// Error if there is no mailbox, or it belongs to another user.
  static void send(const Address& to, int32_t sender, int descriptor);

  struct Letter {
    int32_t sender = 0;
    FileDescriptor descriptor;
  };

  /// Returns the next letter and discards those of other users. Throws Error if none has arrived.
  Letter receive();

 private:
  FileDescriptor socket_;
  Address address_{};
};

}  // namespace dlflow::runtime
