#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/batch/batch.h"
#include "engine/model/profile.h"

/// A batch + a profile -> the text that sbatch gets.
namespace dlflow {

/// `word` as one argument in a #SBATCH line. Not for text with line breaks.
std::string sbatch_quote(std::string_view word);

/// What slurmctld refuses to read (_test_strlen in its job_mgr.c), in bytes.
inline constexpr size_t kMaxArrayText = size_t{4} * 1024;
inline constexpr size_t kMaxDependencyText = size_t{128} * 1024;

/// "afterok:811:812_3,aftercorr:813,afterany:810". Empty for no dependencies. Throws
/// Error{InvalidInput} if that is longer than SLURM reads.
std::string dependency_text(std::span<const Dependency> dependencies);

/// A script whose first lines are the options. Its shell becomes `command`, so that signals
/// to the batch shell are the command's. Throws Error{InvalidInput} for a control character in what
/// becomes an option: #SBATCH lines have no way to write one.
///
/// `--export=ALL`: SlurmTools runs sbatch with an environment that holds what a job needs and no
/// more. NONE or a list would make the node run the user's login shell for each job (`su -`), which
/// is slow, may fail, and holds the job then; and NONE would be inherited by every srun in it.
std::string sbatch_script(const Batch& batch, const Profile& profile);

}  // namespace dlflow
