#pragma once

#include "engine/model/diagnostic.h"
#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Warnings about workflows that are valid but probably not as intended.
namespace dlflow {

/// Words of commands that are not replaced or name nothing -- {{ x }}, $x in a list, a missing
/// program -- and parameters that no step reads.
Diagnostics warnings_of_commands(const Workflow& workflow);

/// How the ranks of `step` will connect, and why: "Open MPI 4 (libmpi.so.40), plug-in
/// libdlflow_mpi_40.so", or "TCP and shared memory: there is no mpirun in PATH". Empty for one
/// rank, on a cluster, and if only the step's job can tell (program_here).
std::string meeting_of(const Workflow& workflow, const Step& step, const Profile& profile);

/// The warnings that `run` prints, too: those of commands above, and scripts that are not among the
/// inputs.
Diagnostics warnings_of_programs(const Workflow& workflow);

/// All warnings of `validate`, in the order of the file: those of programs above; a network or a
/// batch that does not fit the data; idle ranks; variables that are set here but empty in a script;
/// steps without a walltime on a batch system; missing data.
Diagnostics warnings_of(const Workflow& workflow, const Profile& profile);

/// "w.yaml:3:5: warning: …\n" for each.
std::string warning_lines(const Diagnostics& warnings);

}  // namespace dlflow
