#include "engine/cli/chain.h"

#include <cstdio>

#include "engine/cli/run_display.h"
#include "engine/plan/run_directory.h"
#include "engine/report/chain_text.h"
#include "engine/run/chain.h"

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
  for (const std::string& job : result.repointed) {
    std::printf("  %s waits for the new jobs now\n", job.c_str());
  }
  if (result.kept > 0) std::printf("%s kept.\n", count(result.kept, "finished job").c_str());
  const bool nothing = result.submitted.empty() && result.adopted.empty();
  std::printf("%s look again with `dlflow status`.\n",
              nothing ? "There was nothing to submit;" : "Submitted. Nothing keeps running here;");
}

void submit(Session& session, const Plan& plan, const PlanAgain& again, Tools& tools) {
  const ChainResult result = submit_chain(plan.directory, again, tools.services);
  if (session.json) {
    return print_run_json(plan.run, session.store().status(plan.run).state);
  }
  print_submitted(session, plan, result);
}

/// Why SLURM lets a job wait, for people. Empty: for what it needs, which is known better here.
std::string waiting_for(const SlurmJob& job) {
  if (job.reason == "Dependency") return "";
  if (job.reason == "Resources") return "waits for free nodes";
  if (job.reason == "Priority") return "waits in the queue";
  if (job.reason == "BeginTime") return "waits for its start time";
  if (job.reason == "JobArrayTaskLimit") return "waits for other tasks of its array";
  if (job.reason.starts_with("JobHeld")) return "held: scontrol release " + job.id;
  return job.reason == "None" ? "" : "waits: " + job.reason;
}

}  // namespace

RunStatus refresh_chain_status(Session& session, const std::filesystem::path& directory) {
  Tools tools(session);
  const ChainView view = refresh_chain(directory, tools.services);
  RunStatus status = session.store().status(run_name(directory));
  if (!view.problem.empty()) status.problem = "SLURM could not be asked now: " + view.problem;
  for (JobRow& row : status.jobs) {
    const auto found = view.at_work.find(row.job);
    if (found == view.at_work.end()) continue;
    const SlurmJob& job = found->second;
    if (row.state == JobState::Queued && row.reason.empty()) row.reason = waiting_for(job);
    if (row.state == JobState::Running) row.limit = job.limit;
  }
  return status;
}

bool runs_on_slurm(const Profile& profile) { return profile.scheduler == "slurm"; }

void start_chain(Session& session, Plan plan) {
  Tools tools(session);
  create_chain(plan, tools.services);
  if (!session.quiet && !session.json) {
    const std::string& partition = plan.profile.slurm.partition;
    std::printf("%s  %s on %s%s\n", plan.run.c_str(), count(plan.jobs.size(), "job").c_str(),
                plan.profile.name.c_str(),
                partition.empty() ? "" : (", partition " + partition).c_str());
    std::fflush(stdout);
  }
  submit(session, plan, {}, tools);
}

void go_on_with_chain(Session& session, const std::filesystem::path& directory,
                      const PlanAgain& again) {
  Tools tools(session);
  submit(session, load_run(directory), again, tools);
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
