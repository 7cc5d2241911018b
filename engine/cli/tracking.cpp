#include "engine/cli/tracking.h"

#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"
#include "engine/track/track.h"

namespace dlflow {

namespace {

/// The verb was not called for the trackers, so that slow servers must not delay it.
constexpr std::chrono::seconds kPatience(10);

}  // namespace

void keep_track(Session& session, const std::string& run) {
  // Most workflows have no trackers, and the text is faster to read than a plan of 10,000 jobs.
  const auto file = session.store().directory(run) / "workflow.yaml";
  const auto text = read_file_if_exists(file);
  if (!text || text->find("track") == text->npos) return;
  try {
    track(read_reported_run(session, run, Detail::State), SystemClock().now(), kPatience);
  } catch (const Error& error) {
    std::fprintf(stderr, "warning: %s\n", escaped_lines(error.what()).c_str());
  }
}

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
