#include "engine/slurm/allocation.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/slurm/tools.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

void requeue_job(const std::string& id) {
  SlurmTools tools;
  tools.update(id, "Requeue", "1");  // allows the requeue of a job submitted with --no-requeue
  const JobAnswer answer = tools.requeue(id);
  if (answer.kind != JobAnswer::Kind::Done) {
    throw Error(Errc::InvalidInput, "scontrol requeue " + id + ": " + answer.message);
  }
}

/// Ignores errors: the job has already been requeued.
void raise_limit(const std::string& id, const std::string& key, uint64_t value) {
  try {
    SlurmTools({.outlives_sigterm = true}).update(id, key, std::to_string(value));
  } catch (const Error&) {
  }
}

std::optional<uint64_t> own_memory_kills() {
  const auto own = read_file_if_exists("/proc/self/cgroup");
  return own ? job_memory_kills("/sys/fs/cgroup", *own) : std::nullopt;
}

/// The part of ".../job_812/step_batch/user/task_0" up to the job's folder; nothing without one.
std::optional<fs::path> job_part(const fs::path& cgroup) {
  fs::path part;
  for (const fs::path& name : cgroup.relative_path()) {
    part /= name;
    if (name.string().starts_with("job_")) return part;
  }
  return std::nullopt;
}

/// The number after "oom_kill " in a file of counters.
std::optional<uint64_t> kills_in(const fs::path& file) {
  constexpr std::string_view kKey = "oom_kill ";
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.starts_with(kKey)) return std::strtoull(line.c_str() + kKey.size(), nullptr, 10);
  }
  return std::nullopt;
}

/// cgroup version 1 counts separately in each group.
std::optional<uint64_t> kills_below(const fs::path& folder) {
  std::optional<uint64_t> sum = kills_in(folder / "memory.oom_control");
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
    if (const auto kills = kills_in(entry.path() / "memory.oom_control")) {
      sum = sum.value_or(0) + *kills;
    }
  }
  return sum;
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
  allocation.is_at_work = [](const JobIdentity& ours) {
    SlurmTools tools;
    return is_at_work(tools, ours);
  };
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  allocation.memory_bytes =
      std::strtoull(environment_variable("SLURM_MEM_PER_NODE").c_str(), nullptr, 10) * kMebibyte;
  allocation.raise_memory = [](const std::string& id, uint64_t bytes) {
    raise_limit(id, "MinMemoryNode", (bytes + kMebibyte - 1) / kMebibyte);
  };
  allocation.raise_time_limit = [](const std::string& id, std::chrono::minutes limit) {
    raise_limit(id, "TimeLimit", uint64_t(limit.count()));
  };
  return allocation;
}

std::optional<uint64_t> job_memory_kills(const fs::path& root, std::string_view own) {
  for (const std::string& line : split(own, '\n')) {  // "0::/slurm/job_812", "7:memory:/…"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;  // not a line of the kernel
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto job = job_part(line.substr(second + 1));
    if (!job) continue;
    const auto names = split(controllers, ',');
    const bool memory = std::find(names.begin(), names.end(), "memory") != names.end();
    const auto kills = controllers.empty() ? kills_in(root / *job / "memory.events")
                       : memory            ? kills_below(root / "memory" / *job)
                                           : std::nullopt;
    if (kills) return kills;
  }
  return std::nullopt;
}

}  // namespace dlflow
