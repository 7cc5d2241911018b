#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Launchers tell of nodes that went away on the standard error of a job.
namespace dlflow {

/// The exit status of the first task that srun saw end badly ("srun: error: b1: task 0: Exited with
/// exit code 75"); of one that was killed, 128 + SIGKILL.
std::optional<int> bad_end_of_task(std::string_view text);

/// The node with which mpirun lost its connection, on which srun could start no task, of which it
/// was told that it failed, or that did not answer when srun was to end its tasks. If no launcher
/// names it, it is the one that a rank of dlflow's own programs has named ("rank 1 (node b2) died:
/// …"), else empty.
std::optional<std::string> lost_node(std::string_view text);

/// Whether srun could not start all of its tasks, or mpirun its daemon on each node.
bool was_not_launched(std::string_view text);

}  // namespace dlflow
