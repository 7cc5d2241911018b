#include "engine/slurm/memory_kills.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Of ".../job_812/step_batch/user/task_0" what ends with the job; nothing if there is none.
std::optional<fs::path> job_part(const fs::path& cgroup) {
  fs::path part;
  for (const fs::path& name : cgroup.relative_path()) {
    part /= name;
    if (name.string().starts_with("job_")) return part;
  }
  return std::nullopt;
}

/// The number behind "oom_kill " in a file of counters.
std::optional<uint64_t> kills_in(const fs::path& file) {
  constexpr std::string_view kKey = "oom_kill ";
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.starts_with(kKey)) return std::strtoull(line.c_str() + kKey.size(), nullptr, 10);
  }
  return std::nullopt;
}

/// Version 1 counts in each group for itself.
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

std::optional<uint64_t> job_memory_kills(const fs::path& root, std::string_view own) {
  for (const std::string& line : split(own, '\n')) {  // "0::/slurm/job_812", "7:memory:/…"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;  // no line of the kernel's
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
