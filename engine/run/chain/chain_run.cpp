#include "engine/run/chain/chain_run.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/sha256.h"
#include "engine/decide/decide.h"
#include "engine/decide/standing.h"
#include "engine/plan/places.h"
#include "engine/plan/run_directory.h"
#include "engine/run/restore.h"

namespace dlflow {
ChainRun::Loaded ChainRun::load(const std::filesystem::path& run_directory, Store& store) {
  Loaded loaded{.plan = load_run(run_directory), .status = {}};
  store.sync_run(loaded.plan.directory, &loaded.plan);
  loaded.status = store.status(loaded.plan.directory.string());
  take_reused(loaded.plan, loaded.status);
  return loaded;
}

ChainRun::ChainRun(const std::filesystem::path& run_directory, const ChainServices& services)
    : ChainRun(load(run_directory, services.store), services) {}

ChainRun::ChainRun(Loaded&& loaded, const ChainServices& services)
    : services_(services),
      plan_(std::move(loaded.plan)),
      record_(plan_, progress_of(plan_, services.store, loaded.status), services.store,
              services.clock) {
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    number_of_[plan_.jobs[job].name] = job;
    // The id of a job on the login node is that of a process.
    const bool is_here = is_on_login_node(plan_, plan_.jobs[job]);
    ids_.push_back(is_here ? "" : loaded.status.jobs[job].backend_id);
  }
}

std::vector<uint32_t> ChainRun::sharers(uint32_t job) const {
  if (!is_packed(job) || id(job).empty()) return {job};
  const auto pack = uint32_t(step_of(job).matrix.pack);
  const uint32_t first = job - std::min(job, plan_.jobs[job].element % pack);
  std::vector<uint32_t> jobs;
  for (uint32_t other = first; other < std::min<size_t>(first + pack, ids_.size()); ++other) {
    const bool shares = plan_.jobs[other].step == plan_.jobs[job].step && id(other) == id(job);
    if (shares) jobs.push_back(other);
  }
  return jobs;
}

std::optional<JobState> ChainRun::own_state(uint32_t job) const {
  const auto last = last_state(job_directory(plan_, job), name(job), jobs()[job].attempt);
  return last ? last->state : std::nullopt;
}

bool ChainRun::has_own_end(uint32_t job) const {
  const auto last = own_state(job);
  return last && is_final(*last);
}

bool ChainRun::ended_unrecorded(uint32_t job) const {
  const JobState state = jobs()[job].state;
  if (state != JobState::Skipped && !is_broken(state)) return false;
  const std::filesystem::path folder = job_directory(plan_, job);
  const std::vector<int> numbers = attempts(folder);
  if (numbers.empty() || numbers.back() < jobs()[job].attempt) return true;
  const auto recorded = last_state(folder, "", numbers.back());
  return !recorded || recorded->state != state;
}

void ChainRun::note_unrecorded_ends() {
  plan_.skipped.clear();
  plan_.failed.clear();
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    if (!ended_unrecorded(job)) continue;
    (jobs()[job].state == JobState::Skipped ? plan_.skipped : plan_.failed).insert(job);
  }
}

std::string end_of_names(const Plan& plan) {
  const std::string place = plan.directory.string() + to_rfc3339(plan.created);
  return "." + sha256_hex(place).substr(0, 4);
}

std::string batch_name(const Plan& plan, uint32_t number, uint32_t step) {
  return plan.run + "." + std::to_string(number) + "." + plan.workflow.steps[step].name +
         end_of_names(plan);
}

void ChainRun::take_id(uint32_t job, const std::string& batch, uint32_t task) {
  ids_[job] = plan_.jobs[job].name.element().empty() ? batch : batch + "_" + std::to_string(task);
  record_.decide(job, JobState::Queued, "", ids_[job]);
}

/// A task has the number of its element, so that step and task identify the job.
JobIdentity ChainRun::identity(uint32_t job) const {
  constexpr std::chrono::hours kClocksDiffer(1);
  return {.id = id(job),
          .name_begin = plan_.run + ".",
          .name_end = "." + step_of(job).name + end_of_names_,
          .since = plan_.created - kClocksDiffer};
}

bool ChainRun::block_if_hopeless(uint32_t job) {
  const auto block = dlflow::block_if_hopeless(plan_, jobs(), job, looked_up_);
  if (block) record_.decide(*block);
  return block || (jobs()[job].state == JobState::Blocked && !is_freed(jobs(), job));
}

void ChainRun::block_hopeless() {
  const std::set<uint32_t> none;  // the batch system starts jobs
  const Capabilities blocks{.resumes = true, .submitting_is_known = looked_up_, .starts = &none};
  Changes changed;
  for (uint32_t job = 0; job < jobs().size(); ++job) changed[job];
  while (!changed.empty()) {
    for (const Decision& decision : decide(plan_, jobs(), std::exchange(changed, {}), blocks)) {
      record_.decide(decision);
      changed[decision.job];
    }
  }
}

bool ChainRun::has_moved_on(uint32_t job) {
  const JobState before = jobs()[job].state;
  if (before == JobState::Planned) return false;
  for (JobEvent& event :
       attempt_events(job_directory(plan_, job), name(job), jobs()[job].attempt)) {
    // When it was given up, it was known that it had run.
    if (before == JobState::Lost && event.state && !is_final(*event.state)) continue;
    record_.take(job, std::move(event));
  }
  return jobs()[job].state != before;
}

void ChainRun::save() {
  record_.sync();
  record_.save();
}

}  // namespace dlflow
