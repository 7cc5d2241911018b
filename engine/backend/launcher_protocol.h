#pragma once

#include <cstdint>

/// The messages between a LocalBackend and its launcher. Each message is one packet of a
/// SOCK_SEQPACKET socket between two processes of the same executable.
namespace dlflow {

/// A request to supervise a pass, sent to the launcher and from it to a worker. The packet
/// continues with `gpus_length` bytes for CUDA_VISIBLE_DEVICES and the attempt's folder. Its
/// descriptors hold these GPUs (GpuLock).
struct LaunchHeader {
  uint64_t token = 0;  ///< identifies the pass in news
  int32_t pass = 1;
  int32_t gpus_length = -1;  ///< -1: leave the variable unchanged
};

/// Room for PATH_MAX and the names of GPUs.
constexpr size_t kMaxPacket = 8192;

enum class NewsKind : int32_t {
  ProgramEnded,  ///< from a supervisor, see Notice. Dropped if the socket is full
  Recorded,      ///< the same
  Ended,         ///< from the launcher: the supervisor has ended, or is free for another pass
  NotStarted,    ///< from the launcher: fork failed
};

struct LauncherNews {
  uint64_t token = 0;
  NewsKind kind = NewsKind::Recorded;
  int32_t status = 0;  ///< Ended: from waitpid; NotStarted: errno
};

/// The exit status of a worker, for each result of supervise().
constexpr int kExitRecorded = 0;
constexpr int kExitNotOurs = 1;
constexpr int kExitUnrecorded = 2;

}  // namespace dlflow
