#include "engine/run/chain/chain_verbs.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/plan/extension.h"
#include "engine/plan/notifications.h"
#include "engine/plan/places.h"
#include "engine/plan/run_directory.h"
#include "engine/run/chain/chain.h"
#include "engine/run/chain/login_jobs.h"
#include "engine/run/notify/end_on_record.h"
#include "engine/run/notify/notify.h"

namespace dlflow {
namespace {

JobUsage usage_of(const BatchJob& job) {
  return {.elapsed = job.elapsed,
          .cpu_time = job.cpu_time,
          .cpus = job.cpus,
          .memory_bytes = job.max_memory_bytes,
          .energy_joules = job.energy_joules > 0 ? std::optional(job.energy_joules) : std::nullopt};
}

/// Adds the batch system's view to the record of a job.
void add_view(JobRow& row, const ChainView& view, const std::string& waits) {
  const auto known = view.accounting.find(row.job);
  const bool measured = known != view.accounting.end() && is_over(known->second.state);
  if (measured && is_final(row.state)) row.usage = usage_of(known->second);
  const auto found = view.at_work.find(row.job);
  if (found == view.at_work.end()) return;
  // It is held, though its record says running: its node was lost, or an administrator requeued it.
  if (row.state == JobState::Running && found->second.is_held) {
    row.state = JobState::Queued;
    row.reason.clear();
  }
  if (row.state == JobState::Queued && !waits.empty()) {
    row.reason += (row.reason.empty() ? "" : "; ") + waits;
  }
  if (row.state != JobState::Running) return;
  row.limit = found->second.limit;
  row.limit_since = found->second.start;
}

/// Why a job waits in the queue, and what to do if it waits forever.
std::string waits_for(const BatchSystem& batch, const ChainView& view, const JobRow& row,
                      const std::string& run, Time now) {
  const auto found = view.at_work.find(row.job);
  if (found == view.at_work.end()) return "";
  // For a job with its own task this state passes within a moment, when its start is on record.
  if (found->second.state == BatchState::Running && view.shared.contains(row.job))
    return "waits for its turn in " + std::string(batch.name()) + " job " + found->second.id;
  std::string waits = batch.pending_in_words(found->second, now);
  if (!waits.empty() && found->second.never_starts) waits += "; dlflow resubmit " + run;
  return waits;
}

/// Adds a reason to jobs that are not submitted since they need a job on the login node. The plan
/// is only read if there may be any.
void say_what_waits_here(const std::filesystem::path& run_directory, RunStatus& status) {
  const auto& jobs = status.jobs;
  const bool any = std::any_of(jobs.begin(), jobs.end(),
                               [](const JobRow& row) { return row.state == JobState::Planned; });
  if (!any || run_profile(run_directory).classes.empty()) return;
  const Plan plan = load_run(run_directory);
  if (plan.jobs.size() != jobs.size()) return;  // a list has just added some
  std::vector<JobState> states;
  for (const JobRow& row : status.jobs) states.push_back(row.state);
  const auto all_before = login_jobs_before(plan, states);
  for (uint32_t job = 0; job < states.size(); ++job) {
    const auto& before = all_before[job];
    if (!before) continue;
    const std::string here =
        *before == job ? "runs" : "waits for " + plan.jobs[*before].name + ", which runs";
    status.jobs[job].reason = here + " on the login node: type dlflow run --resume " + status.run +
                              " when its parents have ended";
  }
}

/// Adds a reason to jobs that represent elements which a step has yet to list.
void say_what_waits_for_lists(const std::filesystem::path& run_directory, RunStatus& status) {
  const bool any = std::ranges::any_of(status.jobs, [](const JobRow& row) {
    return row.state == JobState::Planned && row.element.find('?') != std::string::npos;
  });
  if (!any) return;
  const Plan plan = load_run(run_directory);
  if (plan.jobs.size() != status.jobs.size()) return;  // a list has just added some
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (!is_open(plan, job) || status.jobs[job].state != JobState::Planned) continue;
    bool has_list = true;
    plan.graph.each_parent(
        job, [&](uint32_t parent) { has_list &= satisfies_dependents(status.jobs[parent].state); });
    if (has_list) continue;
    const std::string who = plan.profile.submit_from_jobs
                                ? ", which then submits them"
                                : "; when it has ended: dlflow run --resume " + status.run;
    status.jobs[job].reason = as_listed(plan.workflow.steps[plan.jobs[job].step].matrix) + who;
  }
}

/// "partition gpu", or the partitions of the classes with jobs to submit.
std::string partitions_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedJob& job : plan.jobs) {
    if (is_on_login_node(plan, job)) continue;
    const std::string& name = partition_of(profile_of(plan, job));
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
  }
  if (names.empty()) return "";
  return (names.size() == 1 ? ", partition " : ", partitions ") + join(names, ", ");
}

/// Reports the end of a run without any job on a node: all were reused, or ran here.
void tell_end(const std::filesystem::path& run_directory) {
  if (!read_notifications(run_directory)) return;
  if (const auto news = end_on_record(load_run(run_directory))) tell_aside(run_directory, *news);
}

/// The verbs on chains in a batch system.
class ChainVerbs : public Verbs {
 public:
  ChainVerbs(std::unique_ptr<BatchSystem> batch, const VerbServices& services)
      : batch_(std::move(batch)),
        services_{services.store, *batch_, services.clock, nullptr, services.tell} {}

  void create(Plan& plan) override { first_ = create_chain(plan, services_); }

  std::vector<PreviewedBatch> preview(const Plan& plan) override {
    return preview_chain(plan, services_);
  }

  std::string announcement(const Plan& plan) const override {
    return plan.run + "  " + count_of_jobs(plan) + " on " + plan.profile.name + partitions_of(plan);
  }

  Outcome start(Plan plan, const RunOptions&) override {
    return submit(plan.directory, {}, std::move(first_));
  }

  Outcome detach(const Plan& plan, const RunOptions&) override {
    return submit(plan.directory, {}, std::move(first_));
  }

  Outcome resume(const std::filesystem::path& run_directory, const RunOptions&) override {
    return submit(run_directory, {});
  }

  Outcome resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                   const RunOptions&) override {
    return submit(run_directory, again);
  }

  Cancelled cancel(const std::filesystem::path& run_directory,
                   const std::vector<std::string>& names) override {
    return {.ended = true, .chain = cancel_chain(run_directory, names, services_)};
  }

  std::vector<RunStatus> refresh(const std::vector<std::filesystem::path>& run_directories,
                                 Detail detail) override {
    const AskAbout what = detail == Detail::Usage ? AskAbout::AllJobs : AskAbout::Open;
    const std::vector<ChainView> views = refresh_chains(run_directories, services_, what);
    const Time now = services_.clock.now();
    std::vector<RunStatus> statuses;
    for (size_t run = 0; run < views.size(); ++run) {
      const ChainView& view = views[run];
      RunStatus status = services_.store.status(run_directories[run].string());
      if (!view.problem.empty()) {
        status.problem = std::string(batch_->name()) + " could not be asked now: " + view.problem;
      }
      if (detail == Detail::Usage) status.unaccounted = view.unaccounted;
      for (JobRow& row : status.jobs) {
        add_view(row, view, waits_for(*batch_, view, row, status.run, now));
        if (row.state == JobState::Planned && row.reason.empty()) {
          row.reason = "not submitted yet: dlflow run --resume " + status.run;
        }
      }
      say_what_waits_here(run_directories[run], status);
      say_what_waits_for_lists(run_directories[run], status);
      statuses.push_back(std::move(status));
    }
    return statuses;
  }

  void check_idle(const std::filesystem::path& run_directory) override {
    if (jobs_in_queue(run_directory, *batch_) == 0) return;
    const std::string run = run_name(run_directory);
    throw Error(Errc::InvalidInput, run + " has jobs in the queue of " +
                                        std::string(batch_->name()) +
                                        "; end it first: dlflow cancel " + run);
  }

  std::chrono::seconds look_interval() const override { return std::chrono::seconds(10); }

 private:
  Outcome submit(const std::filesystem::path& run_directory, const PlanAgain& again,
                 BatchPlan planned = {}) {
    Outcome outcome;
    outcome.chain = submit_chain(run_directory, again, services_, std::move(planned));
    outcome.interrupted = outcome.chain->interrupted;
    outcome.state = services_.store.status(run_directory.string()).state;
    tell_end(run_directory);
    return outcome;
  }

  std::unique_ptr<BatchSystem> batch_;
  ChainServices services_;
  BatchPlan first_;  // of the run that was created
};

}  // namespace

std::unique_ptr<Verbs> chain_verbs(std::unique_ptr<BatchSystem> batch,
                                   const VerbServices& services) {
  return std::make_unique<ChainVerbs>(std::move(batch), services);
}

}  // namespace dlflow
