#include "engine/backend/gpu_lock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/sha256.h"

namespace dlflow {

std::optional<GpuLock> GpuLock::try_acquire(const std::string& gpu) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = "dlflow-gpu-" + gpu;
  if (name.size() >= sizeof address.sun_path) name = "dlflow-gpu-" + sha256_hex(gpu);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // after a 0 byte: not a file
  const auto length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno("cannot reserve GPU " + gpu, errno);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
    return GpuLock(std::move(socket));
  }
  if (errno != EADDRINUSE) throw_errno("cannot reserve GPU " + gpu, errno);
  return std::nullopt;
}

}  // namespace dlflow
