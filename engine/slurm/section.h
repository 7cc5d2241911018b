#pragma once

#include <string>
#include <vector>

#include "engine/model/profile.h"

namespace dlflow {

/// The options of every sbatch call; empty ones are left out.
struct SlurmOptions {
  std::string partition;
  std::string account;
  std::string qos;
  std::string constraint;
  std::string reservation;
  bool exclusive = false;
  std::string gres = "gpu:{gpus}";   ///< per node; empty: --gpus-per-task
  std::vector<std::string> options;  ///< further ones, each "--x=y" or "--x"
  bool operator==(const SlurmOptions&) const = default;
};

template <class Archive>
void list_fields(Archive& archive, SlurmOptions& value) {
  DLFLOW_FIELDS_IF_THERE(partition, account, qos, constraint, reservation, exclusive, gres,
                         options);
}

SlurmOptions slurm_options(const Profile& profile);

}  // namespace dlflow
