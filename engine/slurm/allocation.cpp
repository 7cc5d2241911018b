#include "engine/slurm/allocation.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/slurm/memory_kills.h"
#include "engine/slurm/tools.h"

namespace dlflow {
namespace {

void requeue_job(const std::string& id) {
  SlurmTools tools;
  tools.update(id, "Requeue", "1");  // else one that was submitted with --no-requeue cannot be
  const JobAnswer answer = tools.requeue(id);
  if (answer.kind != JobAnswer::Kind::Done) {
    throw Error(Errc::InvalidInput, "scontrol requeue " + id + ": " + answer.message);
  }
}

/// Yes, if SLURM cannot be asked: nothing may run twice.
bool is_at_work(const JobIdentity& ours) {
  try {
    const std::vector<BatchJob> queue = SlurmTools().queue();
    return std::any_of(queue.begin(), queue.end(), [&ours](const BatchJob& job) {
      return ours.is(job) && !is_over(job.state);
    });
  } catch (const Error&) {
    return true;
  }
}

/// Where it fails, the job was requeued all the same.
void raise_memory(const std::string& id, uint64_t bytes) {
  try {
    SlurmTools({.outlives_sigterm = true}).update_memory(id, bytes);
  } catch (const Error&) {
  }
}

/// The same.
void raise_time_limit(const std::string& id, std::chrono::minutes limit) {
  try {
    SlurmTools({.outlives_sigterm = true}).update_time_limit(id, limit);
  } catch (const Error&) {
  }
}

std::optional<uint64_t> own_memory_kills() {
  const auto own = read_file_if_exists("/proc/self/cgroup");
  return own ? job_memory_kills("/sys/fs/cgroup", *own) : std::nullopt;
}

}  // namespace

std::optional<Allocation> slurm_allocation() {
  Allocation allocation;
  const std::string array = environment_variable("SLURM_ARRAY_JOB_ID");
  allocation.id = array.empty() ? environment_variable("SLURM_JOB_ID")
                                : array + "_" + environment_variable("SLURM_ARRAY_TASK_ID");
  if (allocation.id.empty()) return std::nullopt;
  if (own_memory_kills()) allocation.memory_kills = [] { return own_memory_kills().value_or(0); };
  allocation.requeue = requeue_job;
  allocation.is_at_work = is_at_work;
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  allocation.memory_bytes =
      std::strtoull(environment_variable("SLURM_MEM_PER_NODE").c_str(), nullptr, 10) * kMebibyte;
  allocation.raise_memory = raise_memory;
  allocation.raise_time_limit = raise_time_limit;
  return allocation;
}

}  // namespace dlflow
