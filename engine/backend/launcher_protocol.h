#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

/// The messages between a LocalBackend and its launcher: one message is one packet of a
/// SOCK_SEQPACKET socket between two processes of the same executable.
namespace dlflow {

/// To the launcher, and from it to a worker: supervise a pass. The folder of the attempt is the
/// rest of the packet, after `gpus_length` bytes for CUDA_VISIBLE_DEVICES. The descriptors that
/// come with it hold these GPUs (GpuLock).
struct LaunchHeader {
  uint64_t token = 0;  ///< what news of it calls it
  int32_t pass = 1;
  int32_t gpus_length = -1;  ///< -1: leave the variable as it is
};

/// PATH_MAX, and names of GPUs.
constexpr size_t kMaxPacket = 8192;

enum class NewsKind : int32_t {
  ProgramEnded,  ///< from a supervisor, as Notice. Left out if the socket is full
  Recorded,      ///< the same
  Ended,         ///< from the launcher: the supervisor ended, or is free for another pass
  NotStarted,    ///< from the launcher: fork failed
};

struct LauncherNews {
  uint64_t token = 0;
  NewsKind kind = NewsKind::Recorded;
  int32_t status = 0;  ///< Ended: of waitpid; NotStarted: errno
};

/// How a worker's process ends, by what supervise() returned.
constexpr int kExitRecorded = 0;
constexpr int kExitNotOurs = 1;
constexpr int kExitUnrecorded = 2;

}  // namespace dlflow
