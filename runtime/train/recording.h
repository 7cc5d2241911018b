#pragma once

#include <filesystem>

#include "runtime/comm/communicator.h"
#include "runtime/timeline/timeline.h"

namespace dlflow::runtime {

/// The timeline of some steps of a training run, from recording to the file. meet() and
/// finish() are collective.
class Recording {
 public:
  static constexpr uint64_t kStepsBefore = 10;

  /// `num_steps` are recorded after the first ten, in which memory is touched for the first time.
  /// `comm` must outlive this.
  Recording(Communicator& comm, uint64_t num_steps, std::filesystem::path file);

  Timeline& timeline() { return timeline_; }

  void begin_step();
  void end_step();

  /// All ranks are together, `steps` after training began here: writes if that were enough.
  void meet(uint64_t steps);

  /// Training ends: writes what there is, unless that was done.
  void finish();

 private:
  Communicator& comm_;
  uint64_t num_steps_;
  std::filesystem::path file_;
  Timeline timeline_;
  uint64_t steps_ = 0;
  bool written_ = false;
};

/// Writes the timelines of all ranks to `file` on rank 0: JSON for Perfetto (ui.perfetto.dev) or
/// chrome://tracing. Collective.
///
/// `otherData.began_at` is when time 0 of it was, in seconds since 1970 by rank 0's node.
///
/// All times are of rank 0's clock: each other rank answers ten requests with the time of its own,
/// and in the fastest exchange that was the middle (Cristian, Distributed Computing 3 (1989)), so
/// that ranks agree to half of a message's round trip.
void write_timeline(Communicator& comm, const Timeline& timeline,
                    const std::filesystem::path& file);

}  // namespace dlflow::runtime
