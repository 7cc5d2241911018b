#include "engine/model/schedulers.h"

// The tests compile this file again with a row for a system of their own.
#ifndef DLFLOW_BATCH_SYSTEMS
#define DLFLOW_BATCH_SYSTEMS "engine/model/batch_systems.def"
#endif

namespace dlflow {

#define DLFLOW_BATCH_SYSTEM(name, program) BatchSection name##_section();
#include DLFLOW_BATCH_SYSTEMS
#undef DLFLOW_BATCH_SYSTEM

const std::vector<std::pair<std::string, BatchSection>>& batch_sections() {
#define DLFLOW_BATCH_SYSTEM(name, program) {#name, name##_section()},
  static const std::vector<std::pair<std::string, BatchSection>> sections = {
#include DLFLOW_BATCH_SYSTEMS
  };
#undef DLFLOW_BATCH_SYSTEM
  return sections;
}

std::vector<std::string> schedulers() {
  std::vector<std::string> names = {kLocalScheduler};
  for (const auto& [system, section] : batch_sections()) names.push_back(system);
  return names;
}

}  // namespace dlflow
