#include "engine/run/new_sources.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/text.h"
#include "engine/plan/fingerprint_base.h"
#include "engine/plan/layout.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The plan with the sources of its steps as they are now.
Plan with_sources_of_now(const Plan& plan, FileHashes& hashes) {
  Plan now = plan;
  now.files.clear();
  now.outside.clear();
  now.data.clear();
  for (PlannedStep& step : now.steps) step.inputs.clear();
  read_files(now, hashes);
  return now;
}

void add_differences(const ContentHashes& before, const ContentHashes& now,
                     std::set<std::string>& names) {
  for (const auto& [name, hash] : before) {
    const auto found = now.find(name);
    if (found == now.end() || found->second != hash) names.insert(name);
  }
  for (const auto& [name, hash] : now) {
    if (!before.contains(name)) names.insert(name);
  }
}

std::vector<std::string> differences_between(const Plan& before, const Plan& now) {
  std::set<std::string> names;
  add_differences(before.files, now.files, names);
  add_differences(before.outside, now.outside, names);
  add_differences(before.data, now.data, names);
  return {names.begin(), names.end()};
}

/// The jobs whose fingerprint differs in `now`.
std::vector<uint32_t> changed_jobs(const Plan& before, const Plan& now) {
  std::vector<uint32_t> changed;
  FingerprintBases bases_before(before), bases_now(now);
  for (uint32_t job = 0; job < before.jobs.size(); ++job) {
    if (bases_before.of(job) != bases_now.of(job)) changed.push_back(job);
  }
  return changed;
}

bool left_something(JobState state) {
  return satisfies_dependents(state) || state == JobState::Skipped;
}

/// Moves the sources of `now` into `plan`.
void take_sources(Plan& plan, Plan now) {
  plan.files = std::move(now.files);
  plan.outside = std::move(now.outside);
  plan.data = std::move(now.data);
  plan.steps = std::move(now.steps);
}

}  // namespace

std::vector<std::string> changed_sources(const Plan& plan, FileHashes& hashes) {
  std::error_code none;
  if (!fs::is_directory(plan.base, none)) return {};
  try {
    return differences_between(plan, with_sources_of_now(plan, hashes));
  } catch (const Error& error) {
    if (error.retryable()) throw;
  }
  std::vector<std::string> gone;  // files that cannot be read any more
  for (const auto& [name, hash] : plan.files) {
    if (!fs::exists(plan.base / name, none)) gone.push_back(name);
  }
  return gone;
}

std::vector<uint32_t> made_anew(const Plan& plan, const Jobs& jobs, FileHashes& hashes) {
  const auto has_left_nothing = [&jobs](uint32_t job) { return !left_something(jobs[job].state); };
  std::vector<uint32_t> anew = changed_jobs(plan, with_sources_of_now(plan, hashes));
  std::erase_if(anew, has_left_nothing);
  anew = with_descendants(plan, anew);
  std::erase_if(anew, has_left_nothing);
  return anew;
}

std::string other_user_of(std::span<const Reuse> reuses, const std::string& run,
                          const fs::path& job_directory) {
  for (const Reuse& reuse : reuses) {
    if (reuse.run != run && reuse.from == job_directory) return reuse.run;
  }
  return "";
}

void take_new_sources(Plan& plan, const Jobs& jobs, const NewSourcesServices& services,
                      const PlanJob& plan_job, const std::function<void()>& sync) {
  Plan now = with_sources_of_now(plan, services.hashes);
  const std::vector<std::string> names = differences_between(plan, now);
  const std::vector<uint32_t> changed = changed_jobs(plan, now);
  if (names.empty() && changed.empty()) return;
  std::vector<uint32_t> anew;  // those of them that had succeeded or were skipped
  for (const uint32_t job : changed) {
    if (services.is_out(job)) {
      throw Error(Errc::InvalidInput,
                  plan.jobs[job].name + " runs or waits with the sources that it was submitted " +
                      "with; type `dlflow cancel " + plan.run + " --step " +
                      shell_quote(plan.jobs[job].name) + "`, then repeat this command");
    }
    if (left_something(jobs[job].state)) anew.push_back(job);
  }
  anew = with_descendants(plan, anew);
  for (const uint32_t job : anew) {
    const JobName& name = plan.jobs[job].name;
    if (is_under_way(jobs[job].state)) {
      throw Error(Errc::InvalidInput, name + " runs or waits with results that will be computed " +
                                          "again; type `dlflow cancel " + plan.run + " --step " +
                                          shell_quote(name) + "`, then repeat this command");
    }
    const std::string user = services.user_of(job_directory(plan, job));
    if (!user.empty()) {
      throw_used(plan, name, user);
    }
  }
  const std::string reason = "its inputs changed: " + join(names, ", ");
  const std::set<uint32_t> of_itself(changed.begin(), changed.end());
  for (const uint32_t job : anew) withdraw_result(plan, job);
  crash_point("withdrawn-results");
  std::set<uint32_t> restarted(anew.begin(), anew.end());
  restarted.insert(changed.begin(), changed.end());
  for (const uint32_t job : restarted) {
    if (jobs[job].attempt > 0) set_checkpoints_aside(plan, job, jobs[job].attempt);
    plan.reused.erase(job);
    plan.jobs[job].action = Action::DecideLater;
    plan.jobs[job].cause = Cause::WaitsForParents;
  }
  for (const uint32_t job : anew) {
    if (!left_something(jobs[job].state)) continue;
    plan_job(job, 0, of_itself.contains(job) ? reason : "a result that it needs is computed again");
  }
  sync();
  crash_point("planned-anew");
  take_sources(plan, std::move(now));
  replace_sources(plan, std::vector<uint32_t>(restarted.begin(), restarted.end()));
}

}  // namespace dlflow
