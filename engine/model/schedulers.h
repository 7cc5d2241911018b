#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/model/shape.h"

namespace dlflow {

/// The `scheduler:` of a profile whose jobs run on this machine.
inline constexpr const char* kLocalScheduler = "local";

/// The values of `scheduler:`: kLocalScheduler, and the batch systems in the order of
/// batch_systems.def.
std::vector<std::string> schedulers();

/// A batch system as profiles and plans see it. The folder of system NAME defines it, as
/// `BatchSection NAME_section()` in section.cpp.
struct BatchSection {
  Shape options;          ///< the object NAME of a profile; each option has a default
  std::string summary;    ///< "Options of every sbatch"
  std::string partition;  ///< the option that names the nodes: "queue"
  std::vector<std::string> job_variables;  ///< in the environment of its jobs: "SLURM_*"
};

/// With their names, in the order of batch_systems.def.
const std::vector<std::pair<std::string, BatchSection>>& batch_sections();

}  // namespace dlflow
