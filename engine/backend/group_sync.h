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

/// A thread that brings an EndsLog to the disk for all who wait for that: the first of them waits a
/// moment for others, and who comes while one sync is under way waits for the next.
class GroupSync {
 public:
  /// Of the log that children of this process write. Throws as EndsLog.
  explicit GroupSync(const std::filesystem::path& run_directory);

  /// Returns once nobody waits.
  ~GroupSync();

  /// The line of the pass `token` is in the log. \param at_once  no others are to be expected.
  void add(uint64_t token, bool at_once);

  /// Readable when take() has something.
  int descriptor() const { return done_event_.get(); }

  /// Whose lines have got to the disk since.
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
