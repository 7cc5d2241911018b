#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/batch/batch.h"
#include "engine/model/profile.h"

/// Turns a batch and a profile into a script for sbatch.
namespace dlflow {

/// Quotes `word` as one argument in a #SBATCH line. It must not contain line breaks.
std::string sbatch_quote(std::string_view word);

/// Sizes in bytes that slurmctld rejects (_test_strlen in its job_mgr.c).
inline constexpr size_t kMaxArrayText = size_t{4} * 1024;
inline constexpr size_t kMaxDependencyText = size_t{128} * 1024;

/// "afterok:811:812_3,aftercorr:813,afterany:810". Empty without dependencies. Throws
/// Error{InvalidInput} if it is longer than SLURM accepts.
std::string dependency_text(std::span<const Dependency> dependencies);

/// A script that begins with the options. Its shell executes `command` in its place, so that
/// signals to the batch shell reach the command. Throws Error{InvalidInput} for a control character
/// in an option, since #SBATCH lines cannot express one.
///
/// `--export=ALL`: SlurmTools runs sbatch with an environment that holds only what a job needs.
/// NONE or a list would make the node run the user's login shell for each job (`su -`), which is
/// slow and, if it fails, holds the job. Moreover, every srun in the job would inherit NONE.
std::string sbatch_script(const Batch& batch, const Profile& profile);

}  // namespace dlflow
