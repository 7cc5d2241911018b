#pragma once

#include <filesystem>
#include <functional>
#include <future>

namespace dlflow::runtime {

/// Saves one checkpoint at a time on a thread of its own, which steps back from a core that
/// somebody computes on. One thread calls it.
class BackgroundSave {
 public:
  /// Waits for the one under way; what goes wrong with it then is lost.
  ~BackgroundSave() = default;

  /// Begins to call `write`, which returns the path of a whole checkpoint. None may be under way.
  void start(std::function<std::filesystem::path()> write);

  /// Whether one is under way or has ended unseen.
  bool pending() const { return under_way_.valid(); }

  /// Sees the end of the one under way, if it has come. Throws what `write` threw. Never waits.
  void look();

  /// Waits for the one under way, if any. Throws what `write` threw.
  void finish();

  /// The last one that was seen to be on disk; empty before.
  const std::filesystem::path& last() const { return last_; }

 private:
  std::filesystem::path last_;
  std::future<std::filesystem::path> under_way_;  // its destructor waits
};

}  // namespace dlflow::runtime
