#include "engine/backend/room.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

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

Room::Room(Machine machine)
    : machine_(std::move(machine)),
      free_cores_(machine_.cores),
      free_memory_(int64_t(machine_.memory_bytes)),
      free_gpus_(machine_.gpus) {}

bool Room::fits(const Resources& resources) {
  return cores_taken(resources, machine_) <= free_cores_ &&
         int64_t(resources.memory_bytes) <= free_memory_ && reserve(gpus_taken(resources));
}

/// Locks all or none: two runs that each held half would wait for each other.
bool Room::reserve(size_t count) {
  size_t kept = 0;
  std::vector<std::string> added;
  for (auto gpu = free_gpus_.rbegin(); gpu != free_gpus_.rend() && kept < count; ++gpu) {
    if (!locks_.contains(*gpu)) {
      auto lock = GpuLock::try_acquire(*gpu);
      if (!lock) continue;
      locks_.emplace(*gpu, std::move(*lock));
      added.push_back(*gpu);
    }
    ++kept;
  }
  if (kept == count) return true;
  for (const std::string& gpu : added) locks_.erase(gpu);
  return false;
}

std::vector<std::string> Room::take(const Resources& resources) {
  const size_t count = gpus_taken(resources);
  reserve(count);  // already done after fits()
  std::vector<std::string> gpus;
  for (auto gpu = free_gpus_.rbegin(); gpu != free_gpus_.rend(); ++gpu) {
    if (!locks_.contains(*gpu)) continue;
    if (gpus.size() < count) {
      gpus.push_back(*gpu);
    } else {
      locks_.erase(*gpu);  // reserved for a larger job that fits() was asked about before
    }
  }
  std::reverse(gpus.begin(), gpus.end());
  return take(resources, gpus);
}

std::vector<std::string> Room::take(const Resources& resources,
                                    const std::vector<std::string>& gpus) {
  free_cores_ -= cores_taken(resources, machine_);
  free_memory_ -= int64_t(resources.memory_bytes);
  std::vector<std::string> taken;
  for (const std::string& gpu : gpus) {
    if (std::erase(free_gpus_, gpu) > 0) taken.push_back(gpu);
  }
  return taken;
}

void Room::give_back(const Resources& resources, const std::vector<std::string>& gpus) {
  free_cores_ += cores_taken(resources, machine_);
  free_memory_ += int64_t(resources.memory_bytes);
  free_gpus_.insert(free_gpus_.end(), gpus.begin(), gpus.end());
  for (const std::string& gpu : gpus) locks_.erase(gpu);
}

std::vector<int> Room::descriptors_of(const std::vector<std::string>& gpus) const {
  std::vector<int> descriptors;
  for (const std::string& gpu : gpus) {
    if (const auto lock = locks_.find(gpu); lock != locks_.end()) {
      descriptors.push_back(lock->second.descriptor());
    }
  }
  return descriptors;
}

}  // namespace dlflow
