#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

namespace dlflow::runtime {

/// Number of threads for a rank's work in the background: they mostly wait, for a file system or a
/// peer that takes longer to answer than to send.
constexpr size_t kBackgroundThreads = 4;

/// From now on the calling thread steps back (nice 15): of a core that somebody computes on,
/// kBackgroundThreads of them get about a tenth together.
inline void become_background_thread() { ::setpriority(PRIO_PROCESS, id_t(::gettid()), 15); }

}  // namespace dlflow::runtime
