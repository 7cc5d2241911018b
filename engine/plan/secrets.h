#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/secret_file.h"
#include "engine/plan/plan.h"

/// The secrets of a run. Their values are in RUN/secrets (mode 0600) and in no other file of it: a
/// supervisor reads them there for the job that it starts.
namespace dlflow {

std::filesystem::path secrets_file(const std::filesystem::path& run_directory);

/// Where values come from; the first that has one counts.
struct SecretSources {
  std::vector<std::string> environment;  ///< "NAME=value"
  std::filesystem::path own_file = {};   ///< the user's, read if it is needed; empty: none
  Secrets run = {};                      ///< what the run was given before
};

/// The environment of this process, the file `secrets` in the user's config_folder(), and
/// RUN/secrets if there is a run.
SecretSources secret_sources(const std::filesystem::path& run_directory = {});

/// The secrets of the steps with a job for which `may_run` is true, and that of `notify:`. Throws
/// Error{InvalidInput} for one that has no value, naming the step and the ways to give it; as
/// read_private_file and check_secret.
Secrets find_secrets(const Plan& plan, const std::function<bool(uint32_t job)>& may_run,
                     const SecretSources& sources);

/// No job of the run needs them any more. One that has none is left as it is.
void remove_secrets(const std::filesystem::path& run_directory);

}  // namespace dlflow
