#pragma once

#include <array>
#include <cstdint>

#include "base/handle.h"

namespace dlflow::runtime {

/// Takes copies of open descriptors from processes of this user that share this one's network. What
/// else they see of each other does not matter: containers have user and process namespaces of
/// their own, which forbid to open another's files below /proc.
class DescriptorMailbox {
 public:
  /// An abstract address of Unix sockets, which the kernel chooses.
  using Address = std::array<char, 6>;

  /// \param most  how many senders may wait to be received. Throws Error.
  explicit DescriptorMailbox(int most);

  const Address& address() const { return address_; }

  /// Leaves a copy of `descriptor` there, in the name of `sender`. Returns at once. Throws Error if
  /// there is no mailbox, or one of another user.
  static void send(const Address& to, int32_t sender, int descriptor);

  struct Letter {
    int32_t sender = 0;
    FileDescriptor descriptor;
  };

  /// The next letter; those of other users are thrown away. Throws Error if none has come.
  Letter receive();

 private:
  FileDescriptor socket_;
  Address address_{};
};

}  // namespace dlflow::runtime
