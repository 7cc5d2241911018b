#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runtime/comm/communicator.h"
#include "runtime/train/trainer.h"

/// `dlflow-train --profile-steps`: a file of measurements for `dlflow plan`.
namespace dlflow::steps {

struct ProfileOptions {
  uint64_t steps = 20;
  std::filesystem::path file;  ///< empty: the model's file below $DLFLOW_CACHE/measurements
};

/// Removes `--profile-steps N` and `--measurement FILE` from the arguments; returns nothing without
/// the former. Throws Error{InvalidInput} if they are wrong, or there is no place for the file.
std::optional<ProfileOptions> take_profile_options(int& argc, char** argv);

/// Measures and adds the result to the file, replacing an earlier one from the same setup; prints
/// the file and the time of a step. Collective; returns an exit status.
int profile_training(runtime::Communicator& comm, const runtime::TrainingJob& job,
                     const ProfileOptions& options);

}  // namespace dlflow::steps
