#pragma once

#include <filesystem>
#include <string>

#include "engine/supervisor/claim.h"

/// RUN/gone-hosts/HOST: a machine that a user declared gone for good. Only the user can know the
/// fate of the jobs that it had claimed.
namespace dlflow {

/// Declares all jobs of the run that `host` has claimed so far ended. Throws Error{InvalidInput} if
/// it is this machine, or not a host name.
void declare_gone(const std::filesystem::path& run_directory, const std::string& host);

/// Whether the owner of `claim` ran on a machine that was declared gone after the claim.
bool is_on_gone_host(const std::filesystem::path& run_directory,
                     const std::filesystem::path& attempt_directory, const Claim& claim);

}  // namespace dlflow
