#pragma once

#include <filesystem>
#include <functional>
#include <future>

namespace dlflow::runtime {

/// Saves one checkpoint at a time on a thread of its own. Must be used by a single thread.
class BackgroundSave {
 public:
  /// `steps_back`: the thread leaves most of its core to computation. Must be false if more ranks
  /// than cores wait for each other, since these would starve it.
  explicit BackgroundSave(bool steps_back) : steps_back_(steps_back) {}

  /// Waits for the save under way, and ignores its errors.
  ~BackgroundSave() = default;

  /// Begins to call `write`, which returns a complete checkpoint's path. No save may be under way.
  void start(std::function<std::filesystem::path()> write);

  /// Calls `write` on the calling thread, with its priority, if the caller would wait for it
  /// anyway. No save may be under way.
  void run(const std::function<std::filesystem::path()>& write);

  /// Whether a save is under way, or has ended unnoticed.
  bool pending() const { return under_way_.valid(); }

  /// Notices the end of the save under way. Throws what `write` threw. Never waits.
  void look();

  /// Waits for the save under way, if any. Throws what `write` threw.
  void finish();

  /// The last checkpoint known to be on disk; empty before.
  const std::filesystem::path& last() const { return last_; }

 private:
  bool steps_back_;
  std::filesystem::path last_;
  std::future<std::filesystem::path> under_way_;  // its destructor waits
};

}  // namespace dlflow::runtime
