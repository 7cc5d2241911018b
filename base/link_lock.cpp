#include "base/link_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kBeat = 10s;

/// A path beside `path` that only this process uses.
fs::path beside(const fs::path& path, const char* what) {
  static std::atomic<unsigned> counter{0};
  return path.string() + "." + what + "." + process_name() + "." + std::to_string(counter++);
}

std::optional<time_t> changed(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return info.st_mtime;
}

bool is_dead(const std::string& owner) {
  const Json json = parse_json(owner);
  if (!json.is_object()) return false;
  try {
    return liveness(process_identity_from_json(json)) == Liveness::Dead;
  } catch (const Error&) {
    return false;
  }
}

/// Removes the file that `owner` left behind. Restores the file if it belongs to another process,
/// which has taken the lock meanwhile.
void take_away(const fs::path& path, const std::string& owner) {
  const fs::path aside = beside(path, "stale");
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  if (read_file_if_exists(aside) != owner) (void)::link(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
}

/// \param draft  a file just written by this process: its time is that of the file system's clock.
void take_away_if_left_behind(const fs::path& path, const fs::path& draft) {
  const auto owner = read_file_if_exists(path);
  const auto touched = changed(path);
  const auto now = changed(draft);
  if (!owner || !touched || !now) return;
  if (is_dead(*owner) || *now - *touched > kLockLease.count()) take_away(path, *owner);
}

}  // namespace

/// Touches the file while this object lives; the destructor removes it.
class LinkLock::Hold {
 public:
  explicit Hold(fs::path path) : path_(std::move(path)) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // other threads handle signals
    beat_ = std::thread([this] { beat(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Hold() {
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
    }
    change_.notify_one();
    beat_.join();
    ::unlink(path_.c_str());
  }

 private:
  void beat() {
    std::unique_lock guard(mutex_);
    while (!change_.wait_for(guard, kBeat, [this] { return ended_; })) {
      ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    }
  }

  fs::path path_;
  std::mutex mutex_;
  std::condition_variable change_;
  bool ended_ = false;
  std::thread beat_;
};

LinkLock::LinkLock(std::unique_ptr<Hold> hold) : hold_(std::move(hold)) {}
LinkLock::LinkLock(LinkLock&&) noexcept = default;
LinkLock& LinkLock::operator=(LinkLock&&) noexcept = default;
LinkLock::~LinkLock() = default;

std::optional<LinkLock> LinkLock::try_acquire(const fs::path& path) {
  const auto self = identify(::getpid());
  DLFLOW_CHECK(self.has_value());
  const fs::path draft = beside(path, "draft");
  write_file_atomic(draft, to_json(*self).dump() + "\n");
  bool taken = ::link(draft.c_str(), path.c_str()) == 0;
  int problem = errno;
  if (!taken && problem == EEXIST) {
    take_away_if_left_behind(path, draft);
    taken = ::link(draft.c_str(), path.c_str()) == 0;
    problem = errno;
  }
  ::unlink(draft.c_str());
  if (taken) return LinkLock(std::make_unique<Hold>(path));
  if (problem != EEXIST) throw_errno("cannot create " + path.string(), problem);
  return std::nullopt;
}

bool keeps_locks_local(std::string_view mount_options) {
  for (const std::string& option : split(mount_options, ',')) {
    for (const char* const local : {"localflock", "nolock", "local_lock=flock", "local_lock=all"}) {
      if (option == local) return true;
    }
  }
  return false;
}

bool has_local_flock(const fs::path& path) {
  static std::mutex mutex;
  static std::map<dev_t, bool> known;  // mountinfo is long if many images are mounted
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  const std::lock_guard guard(mutex);
  if (const auto mount = known.find(info.st_dev); mount != known.end()) return mount->second;
  const std::string device =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  // "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - nfs4 server:/export rw,local_lock=none"
  const std::string mounts = read_file_if_exists("/proc/self/mountinfo").value_or("");
  bool is_local = false;
  for (const std::string& line : split(mounts, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() < 6 || words[2] != device) continue;
    is_local |= keeps_locks_local(words[5]) || keeps_locks_local(words.back());
  }
  return known[info.st_dev] = is_local;
}

}  // namespace dlflow
