#include "engine/backend/group_sync.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

namespace dlflow {
namespace {

/// How long the first of a group waits for others. A sync of a journaling file system writes all
/// its changes, so that fewer syncs cost less.
constexpr std::chrono::milliseconds kPatience(8);

}  // namespace

GroupSync::GroupSync(const std::filesystem::path& run_directory)
    : log_(run_directory, ::getpid()),
      done_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { work(); }) {}

GroupSync::~GroupSync() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GroupSync::add(uint64_t token, bool at_once) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(token);
    is_urgent_ |= at_once;
  }
  changed_.notify_one();
}

std::vector<uint64_t> GroupSync::take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(done_event_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void GroupSync::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    changed_.wait_for(lock, kPatience, [this] { return is_ending_ || is_urgent_; });
    is_urgent_ = false;
    const std::vector<uint64_t> group = std::exchange(waiting_, {});
    lock.unlock();
    try {
      log_.sync();
    } catch (const std::exception& error) {  // a failing disk: their records still count
      std::fprintf(stderr, "warning: %s\n", error.what());
    }
    lock.lock();
    done_.insert(done_.end(), group.begin(), group.end());
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t sent = ::write(done_event_.get(), &one, sizeof one);
  }
}

}  // namespace dlflow
