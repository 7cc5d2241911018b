#include "base/packet.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace dlflow {
namespace {

/// The kernel's maximum per message.
constexpr size_t kMostDescriptors = 253;

struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes{};
};

}  // namespace

ssize_t send_packet(int socket, std::string_view bytes, std::span<const int> descriptors,
                    int flags) {
  DLFLOW_CHECK(descriptors.size() <= kMostDescriptors);
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t receive_packet(int socket, std::span<char> bytes, std::vector<FileDescriptor>& descriptors,
                       int flags) {
  iovec part = {bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> received((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(received.data(), CMSG_DATA(header), received.size() * sizeof(int));
    for (const int descriptor : received) descriptors.emplace_back(descriptor);
  }
  return got;
}

}  // namespace dlflow
