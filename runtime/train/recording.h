#pragma once

#include <filesystem>

#include "runtime/comm/communicator.h"
#include "runtime/timeline/timeline.h"

namespace dlflow::runtime {

/// Records the timeline of some steps of a training run and writes it to a file. meet() and
/// finish() are collective.
class Recording {
 public:
  static constexpr uint64_t kStepsBefore = 10;

  /// Records `num_steps` steps after the first ten, which touch memory for the first time. `comm`
  /// must outlive this.
  Recording(Communicator& comm, uint64_t num_steps, std::filesystem::path file);

  Timeline& timeline() { return timeline_; }

  void begin_step();
  void end_step();

  /// Called when all ranks meet, `steps` after training began here; writes once all are recorded.
  void meet(uint64_t steps);

  /// Called when training ends; writes the recorded steps, unless that was done.
  void finish();

 private:
  Communicator& comm_;
  uint64_t num_steps_;
  std::filesystem::path file_;
  Timeline timeline_;
  uint64_t steps_ = 0;
  bool written_ = false;
};

}  // namespace dlflow::runtime
