#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace dlflow::test {

/// Reports hangs: if a test case takes longer than `limit`, prints its name on standard error and
/// ends the process. Under mpirun that ends all ranks.
class HangWatchdog {
 public:
  explicit HangWatchdog(std::chrono::seconds limit) : limit_(limit) {}
  HangWatchdog(const HangWatchdog&) = delete;
  HangWatchdog& operator=(const HangWatchdog&) = delete;

  /// Starts the time limit of case `name`, and ends that of the one before it.
  void begin(const std::string& name) {
    end();
    thread_ = std::jthread([this, name](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      over_.wait_for(lock, stop, limit_, [] { return false; });
      if (stop.stop_requested()) return;
      std::fprintf(stderr, "hangs for %lld s: %s\n", static_cast<long long>(limit_.count()),
                   name.c_str());
      ::_exit(1);
    });
  }

  void end() { thread_ = {}; }

 private:
  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;
};

}  // namespace dlflow::test
