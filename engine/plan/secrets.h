#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/secret_file.h"
#include "engine/plan/plan.h"

/// The secrets of a run. Their values are only in RUN/secrets (mode 0600), where a supervisor reads
/// them for the job that it starts.
namespace dlflow {

std::filesystem::path secrets_file(const std::filesystem::path& run_directory);

/// The sources of values; the first one with a value counts.
struct SecretSources {
  std::vector<std::string> environment;  ///< "NAME=value"
  std::filesystem::path own_file = {};   ///< the user's file, read only if needed; empty: none
  Secrets run = {};                      ///< the values that the run has already
};

/// The environment of this process, the file `secrets` in the user's config_folder(), and
/// RUN/secrets if a run is given.
SecretSources secret_sources(const std::filesystem::path& run_directory = {});

/// The secrets of the steps with a job for which `may_run` is true, and that of `notify:`. Throws
/// Error{InvalidInput} for a secret without a value, naming the step and the ways to give it; also
/// throws like read_private_file and check_secret.
Secrets find_secrets(const Plan& plan, const std::function<bool(uint32_t job)>& may_run,
                     const SecretSources& sources);

/// Removes RUN/secrets, if any. For a run whose jobs need no secrets any more.
void remove_secrets(const std::filesystem::path& run_directory);

}  // namespace dlflow
