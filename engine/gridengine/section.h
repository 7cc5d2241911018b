#pragma once

#include <string>
#include <vector>

#include "engine/model/profile.h"

namespace dlflow {

/// The options of every qsub call of Grid Engine; empty ones are left out.
struct GridEngineOptions {
  std::string queue;
  std::string project;
  std::string parallel_environment;  ///< for jobs with more than one slot (core)
  std::string memory;                ///< the resource that limits a slot's memory: h_vmem
  std::string gpus;                  ///< the request for GPUs with -l: "gpu={gpus}"
  std::vector<std::string> options;  ///< further ones, each "-x y" or "-x"
  bool operator==(const GridEngineOptions&) const = default;
};

template <class Archive>
void list_fields(Archive& archive, GridEngineOptions& value) {
  DLFLOW_FIELDS_IF_THERE(queue, project, parallel_environment, memory, gpus, options);
}

GridEngineOptions gridengine_options(const Profile& profile);

}  // namespace dlflow
