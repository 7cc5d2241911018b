// store_events JOBS: the cost of keeping a run of JOBS jobs in the store, each with its four
// events, recorded in batches as the scheduler does. See store_events.sh.
#include <stdlib.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <variant>

#include "engine/model/parse.h"
#include "engine/store/store.h"

namespace {

using namespace dlflow;

constexpr int kBatch = 50;  // jobs with events in one transaction

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Plan plan_of(int num_jobs) {
  std::string text = "name: store\nsteps:\n  a:\n    run: \"true\"\n    matrix:\n      x: [0";
  for (int i = 1; i < num_jobs; ++i) text += ", " + std::to_string(i);
  auto workflow = std::get<Workflow>(parse_workflow_text(text + "]\n", "store.yaml"));
  NothingKnown known;
  FreshFileHashes hashes;
  Plan plan = make_plan(std::move(workflow), Profile(), {}, known, hashes);
  plan.run = "store-0000";
  plan.directory = "/nowhere/store-0000";
  return plan;
}

/// A change to `state` for each of `count` jobs from `first` on.
std::vector<JobEvent> batch(const Plan& plan, int first, int count, JobState state, int64_t ms) {
  std::vector<JobEvent> events;
  for (int job = first; job < first + count; ++job) {
    JobEvent event;
    event.job = plan.jobs[size_t(job)].name;
    event.attempt = 1;
    event.state = state;
    event.at = Time(std::chrono::milliseconds(ms));
    if (state == JobState::Queued) event.backend_id = std::to_string(100'000 + job);
    if (state == JobState::Running) event.node = "node17";
    if (state == JobState::Succeeded) {
      event.exit = 0;
      event.fingerprint = Fingerprint::of_hex(std::string(58, 'f') + std::to_string(100'000 + job));
    }
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace

int main(int argc, char** argv) {
  const int num_jobs = argc > 1 ? std::atoi(argv[1]) : 10'000;
  std::string home = (std::filesystem::temp_directory_path() / "store_events.XXXXXX").string();
  if (::mkdtemp(home.data()) == nullptr) return 1;
  const Plan plan = plan_of(num_jobs);
  Store store(home);

  const double start = cpu_seconds();
  store.create_run(plan);
  const double created = cpu_seconds();
  for (int first = 0; first < num_jobs; first += kBatch) {
    const int count = std::min(kBatch, num_jobs - first);
    for (const JobState state :
         {JobState::Submitting, JobState::Queued, JobState::Running, JobState::Succeeded}) {
      store.record(plan.run, batch(plan, first, count, state, first * 10 + int(state)));
    }
  }
  const double recorded = cpu_seconds();

  const double per_job_us = 1e6 * (recorded - start) / num_jobs;
  const auto bytes = std::filesystem::file_size(home + "/dlflow.db");
  std::printf(
      "%6d jobs: create %.1f us, four events %.1f us per job: at 1,000 jobs/s %.1f %% of a core, "
      "%.0f bytes per job\n",
      num_jobs, 1e6 * (created - start) / num_jobs, 1e6 * (recorded - created) / num_jobs,
      per_job_us / 10, double(bytes) / num_jobs);
  std::filesystem::remove_all(home);
}
