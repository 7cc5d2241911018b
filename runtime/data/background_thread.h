#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace dlflow::runtime {

/// From now on the calling thread gets about a tenth of a core that others want, too (nice 10).
inline void become_background_thread() { ::setpriority(PRIO_PROCESS, id_t(::gettid()), 10); }

}  // namespace dlflow::runtime
