#include "engine/run/batch_systems.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/gridengine/tools.h"
#include "engine/slurm/allocation.h"
#include "engine/slurm/tools.h"

namespace dlflow {
namespace {

struct Entry {
  std::string_view scheduler;
  const char* submitter;  ///< the program that reveals it
  std::unique_ptr<BatchSystem> (*make)();
  std::optional<Allocation> (*allocation)();
};

constexpr std::array kSystems = {
    Entry{"slurm", "sbatch",
          []() -> std::unique_ptr<BatchSystem> { return std::make_unique<SlurmTools>(); },
          slurm_allocation},
    Entry{"gridengine", "qconf",  // PBS has a qsub, too
          []() -> std::unique_ptr<BatchSystem> { return std::make_unique<GridEngineTools>(); },
          gridengine_allocation},
};

const Entry* find(std::string_view scheduler) {
  const auto found =
      std::find_if(kSystems.begin(), kSystems.end(),
                   [scheduler](const Entry& entry) { return entry.scheduler == scheduler; });
  return found == kSystems.end() ? nullptr : &*found;
}

bool answers(BatchSystem& system) {
  try {
    system.cluster();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> batch_system_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kSystems) names.emplace_back(entry.scheduler);
  return names;
}

bool is_batch_system(std::string_view scheduler) { return find(scheduler) != nullptr; }

std::unique_ptr<BatchSystem> make_batch_system(std::string_view scheduler) {
  const Entry* const entry = find(scheduler);
  if (entry != nullptr) return entry->make();
  throw Error(Errc::InvalidInput, "'" + std::string(scheduler) + "' is not a batch system");
}

std::unique_ptr<BatchSystem> detect_batch_system() {
  const std::string path = environment_variable("PATH");
  std::vector<std::unique_ptr<BatchSystem>> found;
  for (const Entry& entry : kSystems) {
    if (find_program(entry.submitter, path)) found.push_back(entry.make());
  }
  if (found.size() == 1) return std::move(found.front());
  for (std::unique_ptr<BatchSystem>& system : found) {
    if (answers(*system)) return std::move(system);
  }
  if (!found.empty())
    return std::move(found.front());  // its own error explains why it does not
                                      // answer
  std::vector<std::string> submitters;
  for (const Entry& entry : kSystems) submitters.emplace_back(entry.submitter);
  throw Error(Errc::NotFound, "no batch system is in $PATH here (" + join(submitters, ", ") +
                                  "); call this on a login node");
}

Allocation current_allocation() {
  for (const Entry& entry : kSystems) {
    if (auto allocation = entry.allocation()) return std::move(*allocation);
  }
  throw Error(Errc::InvalidInput, "only batch systems call job-exec: it is not inside a job here");
}

}  // namespace dlflow
