#include "engine/cli/recorded_run.h"

#include "base/error.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

ReportedRun read_reported_run(Session& session, const std::string& run, Detail detail) {
  ReportedRun all;
  all.status = refresh_run(session, run, detail);
  all.plan = load_run(all.status.directory);
  for (size_t job = 0; job < all.plan.jobs.size() && job < all.status.jobs.size(); ++job) {
    all.status.jobs[job].asked = *all.plan.jobs[job].resources;
  }
  for (const JobRow& job : all.status.jobs) {
    all.events[job.job] = session.store().events(run, job.job);
  }
  return all;
}

}  // namespace dlflow
