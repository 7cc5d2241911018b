#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

/// Messages of launchers and frameworks about lost nodes and ranks that train alone.
namespace dlflow {

/// The exit status of the first task that srun reported as failed ("srun: error: b1: task 0: Exited
/// with exit code 75"); of one that was killed, 128 + SIGKILL.
std::optional<int> bad_end_of_task(std::string_view text);

/// The node with which mpirun lost its connection, on which srun could start no task, which srun
/// reported as failed, or which did not answer when srun ended its tasks. If no launcher names one,
/// the node that a rank of dlflow's own programs has named ("rank 1 (node b2) died: …"), else
/// empty.
std::optional<std::string> lost_node(std::string_view text);

/// Whether mpirun reported that it lost a node. Its exit status may be 0 then (Open MPI 5.0).
bool lost_daemon(std::string_view text);

/// Whether srun could not start all of its tasks, or mpirun its daemon on each node.
bool was_not_launched(std::string_view text);

/// A warning if each of the `ranks` of a step printed that it trains alone, as frameworks do that
/// did not find the other ranks; empty otherwise.
std::string warning_of_lone_ranks(std::string_view output, int ranks);

/// The same for the beginning of a pass's output, where frameworks print that.
std::string warning_of_lone_ranks(const JobSpec& spec, const AttemptFiles& files);

}  // namespace dlflow
