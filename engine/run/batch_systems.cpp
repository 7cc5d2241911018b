#include "engine/run/batch_systems.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

// The tests compile this file again with a row for a system of their own.
#ifndef DLFLOW_BATCH_SYSTEMS
#define DLFLOW_BATCH_SYSTEMS "engine/model/batch_systems.def"
#endif

namespace dlflow {

// Defined in the folder of each batch system.
#define DLFLOW_BATCH_SYSTEM(name, program)    \
  std::unique_ptr<BatchSystem> make_##name(); \
  std::optional<Allocation> name##_allocation();
#include DLFLOW_BATCH_SYSTEMS
#undef DLFLOW_BATCH_SYSTEM

namespace {

struct Entry {
  std::string_view scheduler;
  const char* program;  ///< the program that reveals it
  std::unique_ptr<BatchSystem> (*make)();
  std::optional<Allocation> (*allocation)();
};

constexpr std::array kSystems = {
#define DLFLOW_BATCH_SYSTEM(name, program) Entry{#name, program, make_##name, name##_allocation},
#include DLFLOW_BATCH_SYSTEMS
#undef DLFLOW_BATCH_SYSTEM
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
    if (find_program(entry.program, path)) found.push_back(entry.make());
  }
  if (found.size() == 1) return std::move(found.front());
  for (std::unique_ptr<BatchSystem>& system : found) {
    if (answers(*system)) return std::move(system);
  }
  if (!found.empty()) return std::move(found.front());  // its own error explains why
  std::vector<std::string> programs;
  for (const Entry& entry : kSystems) programs.emplace_back(entry.program);
  throw Error(Errc::NotFound, "no batch system's tools are in $PATH here (" + join(programs, ", ") +
                                  "); run this on a login node; this machine needs no profile");
}

Allocation current_allocation() {
  for (const Entry& entry : kSystems) {
    if (auto allocation = entry.allocation()) return std::move(*allocation);
  }
  throw Error(Errc::InvalidInput, "only batch systems call job-exec, and this is not inside a job");
}

}  // namespace dlflow
