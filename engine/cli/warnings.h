#pragma once

#include "engine/model/diagnostic.h"
#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Warnings: no mistakes in a workflow, and yet probably not meant.
namespace dlflow {

/// Scripts that a step names without having them in its inputs: it would not find them.
Diagnostics warnings_of_files(const Workflow& workflow);

/// Words of commands that stay as they are or lead nowhere -- {{ x }}, $x in a list, a program that
/// is not there --, and parameters that no step reads.
Diagnostics warnings_of_commands(const Workflow& workflow);

/// How the ranks of `step` will meet, and why: "Open MPI 4 (libmpi.so.40), plug-in
/// libdlflow_mpi_40.so", or "TCP and shared memory: there is no mpirun in PATH". Empty for one
/// rank, on a cluster, and where only the step's job can tell (program_here).
std::string meeting_of(const Workflow& workflow, const Step& step, const Profile& profile);

/// All that `validate` warns of, in the order of the file: the files and commands above; a
/// network or a batch that does not suit the data; ranks that would only wait;
/// variables that are set here and that a script would find empty; steps without a walltime where a
/// batch system decides one; data that is not there.
Diagnostics warnings_of(const Workflow& workflow, const Profile& profile);

/// "w.yaml:3:5: warning: …\n" for each.
std::string warning_lines(const Diagnostics& warnings);

}  // namespace dlflow
