#pragma once

#include "base/json.h"
#include "tests/support/fake_slurm/world.h"

// The state file: every field under its name.
namespace dlflow::fake_slurm {

NLOHMANN_JSON_SERIALIZE_ENUM(State, {{State::Pending, "PENDING"},
                                     {State::Running, "RUNNING"},
                                     {State::Completed, "COMPLETED"},
                                     {State::Cancelled, "CANCELLED"},
                                     {State::Failed, "FAILED"},
                                     {State::Timeout, "TIMEOUT"},
                                     {State::OutOfMemory, "OUT_OF_MEMORY"}})

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Dependency, type, job, task, mark)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Share, node, cpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Task, index, raw_id, state, reason, dependencies, submitted,
                                   eligible, begin, started, ended, exit_code, exit_signal,
                                   cancelled_by, restarts, signalled, purged, pid, shares)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, name, account, partition, directory, output, dependency,
                                   array, stored, nodes, tasks, tasks_per_node, cpus_per_task,
                                   memory_mb, minutes, signal, signal_lead, requeue,
                                   kill_on_invalid_dependency, append, throttle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, id, request, tasks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Config, cluster, nodes, cpus, accounts, accounting,
                                   max_array_size, max_submit, requeue_delay)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Late, request, calls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(World, config, now, next_id, jobs, late)

}  // namespace dlflow::fake_slurm
