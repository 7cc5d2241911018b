#pragma once

#include <sys/types.h>

#include <cstdint>

namespace dlflow {

/// The channels between a launcher's child and the other processes.
struct WorkerChannels {
  int requests = -1;  ///< its own socket: packets as LaunchHeader says
  int finished = -1;  ///< to the launcher: a Finished for each pass whose end is on record
  int news = -1;      ///< to the LocalBackend: LauncherNews
  pid_t launcher = 0;
};

/// The pass is over and all that it started is gone; the worker is free for another. If it is kept,
/// its end is in the EndsLog that is the launcher's, and not on disk yet: the run directory is the
/// rest of the packet.
struct Finished {
  pid_t worker = 0;
  bool kept = false;
  uint64_t token = 0;
};

/// Supervises passes, one after another, until the launcher is gone or lets go of `requests`. It
/// takes another only if the end of the last one is on record and none of its processes is left:
/// with anything else it ends, and so the launcher knows.
///
/// \return the exit status for this process.
int worker_main(const WorkerChannels& channels);

}  // namespace dlflow
