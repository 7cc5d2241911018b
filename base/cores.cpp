#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

namespace dlflow {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return int(::sysconf(_SC_NPROCESSORS_ONLN));  // more cores than the set has bits
}

}  // namespace dlflow
