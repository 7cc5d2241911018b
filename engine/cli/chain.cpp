#include "engine/cli/chain.h"

#include <algorithm>
#include <cstdio>

#include "engine/cli/exit_status.h"
#include "engine/cli/run_display.h"
#include "engine/cli/secrets.h"
#include "engine/plan/run_directory.h"
#include "engine/report/chain_text.h"
#include "engine/run/chain.h"
#include "engine/slurm/pending.h"

namespace dlflow {
namespace {

/// What the functions of chain.h work with.
struct Tools {
  explicit Tools(Session& session) : services{session.store(), slurm, clock} {}

  SlurmTools slurm;
  SystemClock clock;
  ChainServices services;
};

std::string count(size_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

void print_submitted(const Session& session, const Plan& plan, const ChainResult& result) {
  if (session.quiet) return;
  const Style style = session.style();
  if (!result.submitted.empty()) {
    std::fputs(chain_text(plan, result.submitted, style).c_str(), stdout);
  }
  for (const std::string& job : result.adopted) {
    std::printf("  %s was submitted before, and is adopted\n", job.c_str());
  }
  constexpr size_t kListed = 10;
  const size_t listed = std::min(kListed, result.repointed.size());
  for (size_t i = 0; i < listed; ++i) {
    std::printf("  %s waits for the new jobs now\n", result.repointed[i].c_str());
  }
  if (const size_t more = result.repointed.size() - listed; more > 0) {
    std::printf("  and %s more\n", count(more, "job").c_str());
  }
  if (result.held_back > 0) {
    std::printf(
        "%s not submitted yet: %s allows %d at a time. When some have ended,\n"
        "`dlflow run --resume %s` submits more.\n",
        count(result.held_back, "job").c_str(), plan.profile.name.c_str(), plan.profile.limits.jobs,
        plan.run.c_str());
  }
  if (result.kept > 0) std::printf("%s kept.\n", count(result.kept, "finished job").c_str());
  const bool nothing = result.submitted.empty() && result.adopted.empty();
  std::printf("%s look again with `dlflow status`.\n",
              nothing ? "There was nothing to submit;" : "Submitted. Nothing keeps running here;");
}

void submit(Session& session, const Plan& plan, const PlanAgain& again, Tools& tools) {
  const ChainResult result = submit_chain(plan.directory, again, tools.services);
  if (result.held_back > 0) session.status = kBackendRefused;
  if (session.json) {
    return print_run_json(plan.run, session.store().status(plan.directory.string()).state);
  }
  print_submitted(session, plan, result);
}

JobUsage usage_of(const SlurmJob& job) {
  return {.elapsed = job.elapsed,
          .cpu_time = job.cpu_time,
          .cpus = job.cpus,
          .memory_bytes = job.max_memory_bytes};
}

void add_view(JobRow& row, const ChainView& view, const std::string& run) {
  const auto known = view.accounting.find(row.job);
  const bool measured = known != view.accounting.end() && is_over(known->second.state);
  if (measured && is_final(row.state)) row.usage = usage_of(known->second);
  const auto found = view.at_work.find(row.job);
  if (found == view.at_work.end()) return;
  const SlurmJob& job = found->second;
  const std::string waits = pending_in_words(job, SystemClock().now());
  if (row.state == JobState::Queued && !waits.empty()) {
    row.reason += (row.reason.empty() ? "" : "; ") + waits;
    if (job.reason == kNeverSatisfied) row.reason += "; dlflow resubmit " + run;
  }
  if (row.state == JobState::Running) row.limit = job.limit;
}

}  // namespace

std::vector<RunStatus> refresh_chain_statuses(Session& session,
                                              const std::vector<std::filesystem::path>& directories,
                                              Detail detail) {
  if (directories.empty()) return {};
  Tools tools(session);
  const AskAbout what = detail == Detail::Usage ? AskAbout::AllJobs : AskAbout::Open;
  const std::vector<ChainView> views = refresh_chains(directories, tools.services, what);
  std::vector<RunStatus> statuses;
  for (size_t run = 0; run < views.size(); ++run) {
    const ChainView& view = views[run];
    RunStatus status = session.store().status(directories[run].string());
    if (!view.problem.empty()) status.problem = "SLURM could not be asked now: " + view.problem;
    if (detail == Detail::Usage) status.unaccounted = view.unaccounted;
    for (JobRow& row : status.jobs) {
      add_view(row, view, status.run);
      if (row.state == JobState::Planned && row.reason.empty()) {
        row.reason = "not submitted yet: dlflow run --resume " + status.run;
      }
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

bool runs_on_slurm(const Profile& profile) { return profile.scheduler == "slurm"; }

void start_chain(Session& session, Plan plan, const Secrets& secrets) {
  hide_secrets(plan.workflow);
  Tools tools(session);
  create_chain(plan, tools.services);
  keep_secrets(plan, secrets);
  if (!session.quiet && !session.json) {
    const std::string& partition = plan.profile.slurm.partition;
    std::printf("%s  %s on %s%s\n", plan.run.c_str(), count(plan.jobs.size(), "job").c_str(),
                plan.profile.name.c_str(),
                partition.empty() ? "" : (", partition " + partition).c_str());
    std::fflush(stdout);
  }
  submit(session, plan, {}, tools);
}

void go_on_with_chain(Session& session, const Plan& plan, const PlanAgain& again) {
  renew_secrets(session, plan);
  hide_secrets(plan.workflow);
  Tools tools(session);
  submit(session, plan, again, tools);
}

void stop_lost_chain(Session& session, const std::string& run) {
  SlurmTools slurm;
  const bool is_local = session.store().status(run).profile == "local";
  const size_t cancelled = is_local ? 0 : cancel_lost_chain(run, slurm);
  session.store().set_run_state(run, RunState::Cancelled, SystemClock().now());
  if (session.quiet) return;
  std::printf("The directory of %s is gone: %s\n%s of it in SLURM cancelled.\n", run.c_str(),
              session.store().directory(run).c_str(), count(cancelled, "job").c_str());
}

void stop_chain(Session& session, const std::filesystem::path& directory,
                const std::vector<std::string>& names) {
  Tools tools(session);
  const CancelResult result = cancel_chain(directory, names, tools.services);
  if (session.quiet) return;
  std::printf("%s cancelled", count(result.cancelled, "job").c_str());
  if (result.saving > 0) {
    std::printf(", %s asked to save and to end; `dlflow cancel` again kills",
                count(result.saving, "job").c_str());
  }
  std::printf(".\n");
}

}  // namespace dlflow
