#include "runtime/comm/descriptor_mailbox.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/packet.h"

namespace dlflow::runtime {
namespace {

constexpr const char* kWhat = "memory for the ranks of a node";

FileDescriptor open_socket(int flags) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket) throw_errno(kWhat, errno);
  return socket;
}

/// Asks the kernel, which translates users of other namespaces to their numbers in this one.
bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace

DescriptorMailbox::DescriptorMailbox(int most) : socket_(open_socket(SOCK_NONBLOCK)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t size = sizeof name;
  auto* const any = reinterpret_cast<sockaddr*>(&name);
  // Without a name, the kernel chooses a free one: a zero byte and five digits.
  if (::bind(socket_.get(), any, sizeof name.sun_family) != 0 ||
      ::getsockname(socket_.get(), any, &size) != 0 || ::listen(socket_.get(), most) != 0) {
    throw_errno(kWhat, errno);
  }
  DLFLOW_CHECK(size == offsetof(sockaddr_un, sun_path) + address_.size());
  std::memcpy(address_.data(), name.sun_path, address_.size());
}

void DescriptorMailbox::send(const Address& to, int32_t sender, int descriptor) {
  const FileDescriptor socket = open_socket(0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, to.data(), to.size());
  const auto size = socklen_t(offsetof(sockaddr_un, sun_path) + to.size());
  int status = 0;
  do {
    status = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), size);
  } while (status != 0 && errno == EINTR);
  if (status != 0) throw_errno(kWhat, errno);
  if (!is_of_this_user(socket.get())) throw_errno(kWhat, EPERM);
  const std::string_view bytes(reinterpret_cast<const char*>(&sender), sizeof sender);
  if (send_packet(socket.get(), bytes, std::span(&descriptor, 1), 0) < 0) throw_errno(kWhat, errno);
}

DescriptorMailbox::Letter DescriptorMailbox::receive() {
  while (true) {
    const FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && errno == EINTR) continue;
    if (!socket) throw_errno(kWhat, errno);
    if (!is_of_this_user(socket.get())) continue;
    Letter letter;
    std::array<char, sizeof letter.sender> bytes{};
    std::vector<FileDescriptor> descriptors;
    const ssize_t got = receive_packet(socket.get(), bytes, descriptors, MSG_DONTWAIT);
    if (got != ssize_t(bytes.size()) || descriptors.size() != 1) continue;
    std::memcpy(&letter.sender, bytes.data(), bytes.size());
    letter.descriptor = std::move(descriptors.front());
    return letter;
  }
}

}  // namespace dlflow::runtime
