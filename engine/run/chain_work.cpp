#include "engine/run/chain_work.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/run/restore.h"
#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Nothing more will ever be known: sacct has answered, or the cluster has no accounting.
bool is_complete(const Accounting& accounting) {
  return accounting.missing.empty() || accounting.missing.find("disabled") != std::string::npos;
}

Plan loaded(const fs::path& run_directory, Store& store) {
  Plan plan = load_run(run_directory);
  store.sync_run(plan.directory);
  return plan;
}

}  // namespace

void ChainQuestion::add(ChainQuestion other) {
  const bool first = is_empty();
  std::move(other.open.begin(), other.open.end(), std::back_inserter(open));
  std::move(other.ended.begin(), other.ended.end(), std::back_inserter(ended));
  since = first ? other.since : std::min(since, other.since);
}

ChainAnswer ask(SlurmTools& tools, const ChainQuestion& question) {
  ChainAnswer answer;
  std::vector<std::string> ids = question.ended;
  if (!question.open.empty()) {
    answer.queue = tools.queue();
    for (std::string& id : ids_to_ask_for(question.open, answer.queue))
      ids.push_back(std::move(id));
  }
  if (!ids.empty()) answer.accounting = tools.accounting(ids, question.since);
  return answer;
}

Chain::Chain(const fs::path& run_directory, const ChainServices& services)
    : services_(services),
      plan_(loaded(run_directory, services.store)),
      status_(services.store.status(plan_.directory.string())),
      jobs_(plan_),
      record_(plan_, jobs_, services.store, services.clock) {
  take_reused(plan_, status_);
  take_states(plan_, jobs_, services.store, status_);
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    number_of_[plan_.jobs[job].name] = job;
    ids_.push_back(status_.jobs[job].backend_id);
  }
}

/// What SLURM may have: also what is blocked or planned again, and was submitted once.
std::vector<OpenJob> Chain::open_jobs() const {
  std::vector<OpenJob> open;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const JobState state = jobs_[job].state;
    if (is_final(state) && state != JobState::Blocked) continue;
    if (!ids_[job].empty()) {
      open.push_back({plan_.jobs[job].name, jobs_[job].attempt, state, ids_[job],
                      plan_.jobs[job].resources.memory_bytes});
    }
  }
  return open;
}

ChainQuestion Chain::question(AskAbout what) const {
  ChainQuestion question{.open = open_jobs(), .ended = {}, .since = plan_.created};
  if (what == AskAbout::Open) return question;
  std::set<std::string> open;
  for (const OpenJob& job : question.open) open.insert(job.id);
  for (const std::string& id : ids_) {
    if (!id.empty() && !open.contains(id)) question.ended.push_back(id);
  }
  return question;
}

/// Of a job that accounting alone takes for running it is doubtful how it ended: Leave it, or
/// GiveUp.
std::map<std::string, SlurmJob> Chain::look(Doubt doubt) {
  ChainAnswer answer = ask(services_.tools, question(AskAbout::Open));
  if (doubt == Doubt::GiveUp) {
    std::erase_if(answer.accounting.jobs, [](const SlurmJob& job) { return !is_over(job.state); });
  }
  return take(answer);
}

/// Records the ends that only SLURM knows. Returns what waits or runs, by job's name.
std::map<std::string, SlurmJob> Chain::take(const ChainAnswer& answer) {
  const std::vector<OpenJob> open = open_jobs();
  Observation seen = observe(open, answer.queue, answer.accounting.jobs,
                             is_complete(answer.accounting), services_.clock.now());
  for (JobEvent& event : seen.events) {
    const uint32_t job = number_of_.at(event.job);
    if (has_moved_on(job)) continue;
    if (block_if_hopeless(job)) continue;  // the site cancels what can never start
    record_.write(job, std::move(event));
  }
  return std::move(seen.at_work);
}

/// Whether the job has recorded something since we read its record, while SLURM was asked: what
/// SLURM's answer means is then not said of that. What is planned again only has an id of before.
bool Chain::has_moved_on(uint32_t job) {
  const JobState before = jobs_[job].state;
  if (before == JobState::Planned) return false;
  for (JobEvent& event :
       attempt_events(job_directory(plan_, job), plan_.jobs[job].name, jobs_[job].attempt)) {
    record_.note(job, std::move(event));
  }
  return jobs_[job].state != before;
}

/// What waits for a job that ended badly never starts, whatever SLURM shows of it.
bool Chain::block_if_hopeless(uint32_t job) {
  const JobState state = jobs_[job].state;
  const bool has_no_job = state == JobState::Submitting && looked_up_;
  if (state != JobState::Queued && state != JobState::Planned && !has_no_job) return false;
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      if (!is_broken(jobs_[parent].state)) continue;
      record_.move(job, JobState::Blocked, "", "waits for " + plan_.jobs[parent].name);
      return true;
    }
  }
  return false;
}

void Chain::block_descendants() {
  for (uint32_t job = 0; job < jobs_.size(); ++job) block_if_hopeless(job);
}

ChainView Chain::refresh(const ChainAnswer& answer) {
  ChainView view;
  view.problem = answer.problem;
  view.unaccounted = answer.accounting.missing;
  std::unordered_map<std::string_view, const SlurmJob*> accounted;
  for (const SlurmJob& job : answer.accounting.jobs) accounted[job.id] = &job;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const auto found = accounted.find(ids_[job]);
    if (found != accounted.end()) view.accounting[plan_.jobs[job].name] = *found->second;
  }
  if (answer.problem.empty()) view.at_work = take(answer);
  block_descendants();
  record_.sync();
  record_.save();
  return view;
}

/// False if it was asked before: whoever asks a second time does not want to wait for checkpoints.
bool Chain::ask_to_save(uint32_t job) {
  const fs::path attempt = attempt_directory(job_directory(plan_, job), jobs_[job].attempt);
  const fs::path request = AttemptFiles{attempt}.cancel_request();
  if (fs::exists(request)) return false;
  services_.tools.signal_batch(ids_[job], "INT");
  make_directories(attempt);  // it may not have begun yet
  write_file_atomic(request, "");
  return true;
}

CancelResult Chain::cancel(const std::vector<std::string>& names) {
  CancelResult result;
  check_names_exist(plan_, names);
  ChainResult found_again;
  adopt(found_again);  // of which SLURM's answer was lost
  const auto at_work = look(Doubt::Leave);
  std::vector<std::string> ids;
  std::vector<uint32_t> waiting;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const auto found = at_work.find(plan_.jobs[job].name);
    if (found == at_work.end() || !is_meant(plan_, job, names)) continue;
    const bool waits = found->second.state == SlurmState::Pending;
    if (!waits && ask_to_save(job)) {
      ++result.saving;
      continue;
    }
    ids.push_back(ids_[job]);
    if (waits) waiting.push_back(job);
    ++result.cancelled;
  }
  // First SLURM: what is recorded as cancelled may be submitted again at once.
  if (!ids.empty()) services_.tools.cancel(ids);
  crash_point("cancel");
  for (const uint32_t job : waiting) {
    record_.move(job, JobState::Cancelled, "", "cancelled by `dlflow cancel`");
  }
  record_.sync();
  record_.save();
  services_.store.settle_run_state(plan_.directory.string());
  return result;
}

}  // namespace dlflow
