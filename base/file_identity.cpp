#include "base/file_identity.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

int64_t nanoseconds_of(const timespec& time) {
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

constexpr nanoseconds kLongestTick = 2s;
constexpr nanoseconds kUsualTick = 10ms;

nanoseconds now() {
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

/// \param look  stat or lstat
FileIdentity looked_at(const std::filesystem::path& path, int (*look)(const char*, struct stat*)) {
  struct stat info {};
  if (look(path.c_str(), &info) != 0) throw_errno("cannot read " + path.string(), errno);
  return {info.st_size, nanoseconds_of(info.st_mtim), nanoseconds_of(info.st_ctim),
          int64_t(info.st_ino)};
}

}  // namespace

FileIdentity identity_of(const std::filesystem::path& path) { return looked_at(path, ::stat); }

FileIdentity identity_of_link(const std::filesystem::path& path) {
  return looked_at(path, ::lstat);
}

int64_t device_of(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_errno("cannot read " + path.string(), errno);
  return int64_t(info.st_dev);
}

bool keeps_times(uint64_t type, bool is_read_only) {
  constexpr uint64_t kFuse = 0x65735546;
  constexpr std::array<uint64_t, 4> kImages = {0x73717368, 0xE0F5E1E2, 0x9660, 0x28CD3D45};
  const bool is_image = std::ranges::find(kImages, type) != kImages.end();
  return !is_image && !(type == kFuse && is_read_only);
}

bool has_times_of_kernel(const std::filesystem::path& path) {
  struct statfs system {};
  if (::statfs(path.c_str(), &system) != 0) return false;
  return keeps_times(uint32_t(system.f_type), (uint64_t(system.f_flags) & ST_RDONLY) != 0);
}

std::string to_string(const FileIdentity& identity) {
  return std::to_string(identity.size) + " " + std::to_string(identity.mtime_ns) + " " +
         std::to_string(identity.ctime_ns) + " " + std::to_string(identity.inode);
}

nanoseconds time_to_settle(const FileIdentity& identity) {
  const bool has_whole_seconds = identity.ctime_ns % nanoseconds(1s).count() == 0;
  const nanoseconds tick = has_whole_seconds ? kLongestTick : kUsualTick;
  const nanoseconds left = nanoseconds(identity.ctime_ns) + tick - now();
  return std::clamp(left, nanoseconds(0), tick);  // other hosts' clocks differ
}

bool is_settled(const FileIdentity& identity) {
  return now() - nanoseconds(std::max(identity.mtime_ns, identity.ctime_ns)) > kLongestTick;
}

}  // namespace dlflow
