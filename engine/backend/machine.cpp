#include "engine/backend/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/cores.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The folders of this process's cgroup and of its ancestors, all of whose limits apply.
std::vector<fs::path> cgroup_folders() {
  const fs::path root = "/sys/fs/cgroup";
  std::vector<fs::path> folders = {root};
  const std::string text = read_file_if_exists("/proc/self/cgroup").value_or("");
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("0::/")) continue;
    fs::path folder = root;
    for (const fs::path& part : fs::path(line.substr(4))) folders.push_back(folder /= part);
  }
  return folders;
}

int cores_here() {
  int cores = usable_cores();
  for (const fs::path& folder : cgroup_folders()) {
    std::istringstream text(read_file_if_exists(folder / "cpu.max").value_or(""));
    double quota = 0;  // fails for "max"
    double period = 0;
    if (text >> quota >> period && period > 0) {
      cores = std::min(cores, std::max(1, int(quota / period)));
    }
  }
  return std::max(1, cores);
}

uint64_t memory_here() {
  uint64_t bytes = uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
  for (const fs::path& folder : cgroup_folders()) {
    std::istringstream text(read_file_if_exists(folder / "memory.max").value_or(""));
    uint64_t limit = 0;
    if (text >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::vector<std::string> numbered(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

bool is_gpu(std::string_view name) {
  const bool numbered =
      !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  return numbered || name.starts_with("GPU-") || name.starts_with("MIG-");
}

/// Reads the list like CUDA, up to the first name that is not a GPU, such as -1 or NoDevFiles.
std::vector<std::string> gpus_here() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::vector<std::string> names;
    for (const std::string& name : split(visible, ',')) {
      if (!is_gpu(trim(name))) break;
      names.emplace_back(trim(name));
    }
    return names;
  }
  return numbered(gpus_in("/dev"));
}

[[noreturn]] void throw_too_much(const Plan& plan, const PlannedJob& job, const std::string& asked,
                                 const std::string& there, const std::string& advice) {
  const Step& step = plan.workflow.steps[job.step];
  throw_at(plan.workflow, step.location_of("resources"),
           "step '" + job.name + "' asks for " + asked + ", but profile '" + plan.profile.name +
               "' has " + there + " here; " + advice);
}

}  // namespace

int gpus_in(const std::filesystem::path& devices) {
  static constexpr std::string_view kName = "nvidia";
  int count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(devices, none)) {
    const std::string name = entry.path().filename().string();
    const bool numbered = name.size() > kName.size() && name.starts_with(kName) &&
                          name.find_first_not_of("0123456789", kName.size()) == std::string::npos;
    count += numbered ? 1 : 0;
  }
  return count;
}

Machine local_machine(const Profile& profile) {
  return {.cores = profile.cores > 0 ? profile.cores : cores_here(),
          .memory_bytes = profile.memory_bytes > 0 ? profile.memory_bytes : memory_here(),
          .gpus = profile.gpus > 0 ? numbered(profile.gpus) : gpus_here()};
}

int cores_taken(const Resources& resources, const Machine& machine) {
  const int64_t asked = int64_t(resources.ranks) * resources.cpus_per_rank;
  if (resources.exclusive && asked <= machine.cores) return machine.cores;
  return int(resources.ranks > 1 ? std::min<int64_t>(asked, machine.cores) : asked);
}

size_t gpus_taken(const Resources& resources) {
  return size_t(resources.ranks) * size_t(resources.gpus_per_rank);
}

void check_fits(const Plan& plan, const Machine& machine) {
  for (const PlannedJob& job : plan.jobs) {
    const Resources& resources = *job.resources;
    const size_t gpus = gpus_taken(resources);
    if (cores_taken(resources, machine) > machine.cores) {
      throw_too_much(plan, job, plural(uint64_t(resources.cpus_per_rank), "core"),
                     plural(uint64_t(machine.cores), "core"), "ask for fewer `cpus_per_rank`");
    }
    if (resources.memory_bytes > machine.memory_bytes) {
      throw_too_much(plan, job, format_size(resources.memory_bytes) + " of memory",
                     format_size(machine.memory_bytes), "ask for less `memory`");
    }
    if (gpus > machine.gpus.size()) {
      throw_too_much(plan, job, plural(std::min<size_t>(gpus, 1'000'000), "GPU"),
                     plural(machine.gpus.size(), "GPU"),
                     "ask for fewer `ranks` or `gpus_per_rank`, or choose another --profile");
    }
  }
}

}  // namespace dlflow
