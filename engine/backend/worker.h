#pragma once

#include <sys/types.h>

#include <cstdint>

namespace dlflow {

/// The channels between a launcher's child and the other processes.
struct WorkerChannels {
  int requests = -1;  ///< its own socket: packets with a LaunchHeader
  int finished = -1;  ///< to the launcher: a Finished for each pass with a recorded end
  int news = -1;      ///< to the LocalBackend: LauncherNews
  pid_t launcher = 0;
};

/// A pass has ended with all its processes, and the worker is free. If its end was kept, it is in
/// the launcher's EndsLog, but not synced yet: the packet continues with the run directory.
struct Finished {
  pid_t worker = 0;
  bool kept = false;
  uint64_t token = 0;
};

/// Supervises one pass after another, until the launcher is gone or closes `requests`. Accepts
/// another pass only if the end of the last one is recorded and none of its processes is left.
/// Otherwise it ends, which informs the launcher.
int worker_main(const WorkerChannels& channels);

}  // namespace dlflow
