#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "base/handle.h"
#include "engine/plan/ends_log.h"

namespace dlflow {

/// A thread that syncs an EndsLog for all passes that wait for it (group commit). The first one
/// waits briefly for others; those that come during a sync wait for the next.
class GroupSync {
 public:
  /// Opens the log that children of this process write. Throws like EndsLog.
  explicit GroupSync(const std::filesystem::path& run_directory);

  /// Returns once no pass is waiting.
  ~GroupSync();

  /// The line of the pass `token` has been appended. \param at_once  no others are expected.
  void add(uint64_t token, bool at_once);

  /// Readable when take() has results.
  int descriptor() const { return done_event_.get(); }

  /// The tokens whose lines have been synced since the last call.
  std::vector<uint64_t> take();

 private:
  void work();

  EndsLog log_;
  FileDescriptor done_event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> waiting_;
  std::vector<uint64_t> done_;
  bool is_urgent_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace dlflow
