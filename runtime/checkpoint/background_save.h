#pragma once

#include <filesystem>
#include <functional>
#include <future>

namespace dlflow::runtime {

/// Saves one checkpoint at a time on a thread of its own. One thread calls it.
class BackgroundSave {
 public:
  /// `steps_back`: the thread leaves most of its core to whoever computes there. Not where more
  /// ranks than cores wait for each other: they would keep it from its work.
  explicit BackgroundSave(bool steps_back) : steps_back_(steps_back) {}

  /// Waits for the one under way; what goes wrong with it then is lost.
  ~BackgroundSave() = default;

  /// Begins to call `write`, which returns the path of a whole checkpoint. None may be under way.
  void start(std::function<std::filesystem::path()> write);

  /// Calls `write` on the calling thread, for who would wait for it: with its priority. None may be
  /// under way.
  void run(const std::function<std::filesystem::path()>& write);

  /// Whether one is under way or has ended unseen.
  bool pending() const { return under_way_.valid(); }

  /// Sees the end of the one under way, if it has come. Throws what `write` threw. Never waits.
  void look();

  /// Waits for the one under way, if any. Throws what `write` threw.
  void finish();

  /// The last one that was seen to be on disk; empty before.
  const std::filesystem::path& last() const { return last_; }

 private:
  bool steps_back_;
  std::filesystem::path last_;
  std::future<std::filesystem::path> under_way_;  // its destructor waits
};

}  // namespace dlflow::runtime
