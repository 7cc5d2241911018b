#include "engine/model/schedulers.h"

// The tests compile this file again with a row for a system of their own.
#ifndef DLFLOW_BATCH_SYSTEMS
#define DLFLOW_BATCH_SYSTEMS "engine/model/batch_systems.def"
#endif

namespace dlflow {

std::vector<std::string> schedulers() {
#define DLFLOW_BATCH_SYSTEM(name, program) , #name
  return {kLocalScheduler
#include DLFLOW_BATCH_SYSTEMS
  };
#undef DLFLOW_BATCH_SYSTEM
}

}  // namespace dlflow
