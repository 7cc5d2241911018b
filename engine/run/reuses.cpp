#include "engine/run/reuses.h"

#include "base/error.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

void add_own_records(const RunSummary& run, std::vector<Reuse>& reuses) {
  const auto add = [&](const std::string& from) {
    reuses.push_back({run.run, run.directory, from});
  };
  for (const auto& [job, known] : load_run(run.directory).reused) add(known.directory);
  for (const JobEvent& event : EventTail(engine_events_file(run.directory)).read()) {
    if (!event.reused_from.empty()) add(event.reused_from);
  }
}

}  // namespace

std::vector<Reuse> reuses_of_runs(Store& store) {
  std::vector<Reuse> reuses = store.reuses();
  for (const RunSummary& run : store.runs()) {
    if (run.state != RunState::Running && run.state != RunState::Interrupted) continue;
    try {
      add_own_records(run, reuses);
    } catch (const Error&) {
      continue;  // gone or damaged: nobody goes on with it
    }
  }
  return reuses;
}

}  // namespace dlflow
