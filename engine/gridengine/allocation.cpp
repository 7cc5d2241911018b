#include "engine/gridengine/allocation.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/process.h"
#include "engine/gridengine/tools.h"

namespace dlflow {
namespace {

/// A job that ends with it is run again under its id; 100 would hold it in an error state.
constexpr int kRescheduled = 99;

/// Yes, if Grid Engine cannot be asked: nothing may run twice.
bool is_at_work(const JobIdentity& ours) {
  try {
    const std::vector<BatchJob> queue = GridEngineTools().queue();
    return std::any_of(queue.begin(), queue.end(),
                       [&ours](const BatchJob& job) { return ours.is(job); });
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::optional<Allocation> gridengine_allocation() {
  const std::string task = environment_variable("SGE_TASK_ID");  // "undefined" of a plain job
  Allocation allocation;
  allocation.id = environment_variable("JOB_ID");
  if (allocation.id.empty() || task.empty()) return std::nullopt;
  const long number = std::strtol(task.c_str(), nullptr, 10);
  if (number > 0) allocation.id += "_" + std::to_string(number - 1);
  allocation.requeue = [](const std::string&) {};  // by its exit status
  allocation.requeue_status = kRescheduled;
  allocation.reserves_statuses = true;
  allocation.own_signals = {SIGUSR2};  // of qdel; the program is asked to save, which is SIGUSR1
  allocation.is_at_work = is_at_work;
  return allocation;
}

}  // namespace dlflow
