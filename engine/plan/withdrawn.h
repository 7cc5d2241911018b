#pragma once

#include <filesystem>
#include <span>

#include "engine/plan/job_name.h"

/// RUN/withdrawn: attempts that must not begin any more, even if a scheduler starts their jobs.
/// Either `dlflow cancel` may have failed to stop them, or another attempt replaces them. A job
/// checks this file before it starts its program. Only the holder of the run's RunLock may write
/// it.
namespace dlflow {

struct WithdrawnAttempt {
  JobName job;
  int attempt = 1;
  bool operator==(const WithdrawnAttempt&) const = default;
};

/// Adds `attempts` and syncs the file.
void withdraw(const std::filesystem::path& run_directory,
              std::span<const WithdrawnAttempt> attempts);

/// Removes `attempts` from the list, so that they may begin. Ignores those not on it.
void want_again(const std::filesystem::path& run_directory,
                std::span<const WithdrawnAttempt> attempts);

bool has_withdrawn(const std::filesystem::path& run_directory);

bool is_withdrawn(const std::filesystem::path& run_directory, const JobName& job, int attempt);

}  // namespace dlflow
