#pragma once

#include <filesystem>
#include <string>

#include "engine/supervisor/claim.h"

/// RUN/gone-hosts/HOST: a machine that does not come back, as its user says. Nobody else can know
/// what became of the jobs that it had claimed.
namespace dlflow {

/// What `host` has claimed of the run so far is over. Throws Error{InvalidInput} if it is this
/// machine, or no name of one.
void declare_gone(const std::filesystem::path& run_directory, const std::string& host);

/// Whether the owner of `claim` was on a machine that was declared gone since it was made.
bool is_on_gone_host(const std::filesystem::path& run_directory,
                     const std::filesystem::path& attempt_directory, const Claim& claim);

}  // namespace dlflow
