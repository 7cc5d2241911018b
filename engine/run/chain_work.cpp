#include "engine/run/chain_work.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/restore.h"
#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Nothing more will ever be known: sacct has answered, or the cluster has no accounting.
bool is_complete(const Accounting& accounting) {
  return accounting.missing.empty() || accounting.missing.find("disabled") != std::string::npos;
}

/// What the controller has of the jobs that nobody else knows joins the queue; what it denies is
/// gone. Where it says neither, nothing is known of the job now. So many at a time: with the next
/// look come the rest.
void ask_controller(SlurmTools& tools, const ChainQuestion& question, ChainAnswer& answer) {
  constexpr size_t kMostAtOnce = 200;
  std::map<std::string, std::vector<std::string>> vanished;  // by job or array
  for (const std::string& id :
       ids_nobody_knows(question.open, answer.queue, answer.accounting.jobs)) {
    vanished[std::string(array_id(id))].push_back(id);
  }
  size_t asked = 0;
  for (const auto& [array, ids] : vanished) {
    if (asked++ == kMostAtOnce) return;
    auto shown = tools.show_job(array);
    if (!shown) continue;
    answer.gone.insert(ids.begin(), ids.end());
    for (SlurmJob& job : *shown) {
      answer.gone.erase(job.id);
      answer.queue.push_back(std::move(job));
    }
  }
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

ChainAnswer ask(SlurmTools& tools, const ChainQuestion& question, Doubt doubt) {
  ChainAnswer answer;
  std::vector<std::string> ids = question.ended;
  if (!question.open.empty()) {
    answer.queue = tools.queue();
    for (std::string& id : ids_to_ask_for(question.open, answer.queue))
      ids.push_back(std::move(id));
  }
  if (!ids.empty()) answer.accounting = tools.accounting(ids, question.since);
  if (doubt == Doubt::GiveUp) {
    std::erase_if(answer.accounting.jobs, [](const SlurmJob& job) { return !is_over(job.state); });
  }
  if (is_complete(answer.accounting)) ask_controller(tools, question, answer);
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

/// What SLURM may have: also what is blocked or planned again, and was submitted once, and what was
/// given up as lost.
std::vector<OpenJob> Chain::open_jobs() const {
  std::vector<OpenJob> open;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const JobState state = jobs_[job].state;
    if (is_final(state) && state != JobState::Blocked && state != JobState::Lost) continue;
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

std::map<std::string, SlurmJob> Chain::look(Doubt doubt) {
  return take(ask(services_.tools, question(AskAbout::Open), doubt));
}

/// Records the ends that only SLURM knows. Returns what waits or runs, by job's name.
std::map<std::string, SlurmJob> Chain::take(const ChainAnswer& answer) {
  const std::vector<OpenJob> open = open_jobs();
  Observation seen =
      observe(open, answer.queue, answer.accounting.jobs, answer.gone, services_.clock.now());
  for (JobEvent& event : seen.events) {
    const uint32_t job = number_of_.at(event.job);
    if (has_moved_on(job)) continue;
    if (block_if_hopeless(job)) continue;  // the site cancels what can never start
    record_.write(job, std::move(event));
  }
  believe(seen.at_work);
  unblock(seen.at_work);
  return std::move(seen.at_work);
}

/// A job that was given up as lost, and that SLURM has after all, is in the state of its record. An
/// id alone is no proof: it may be another's by now.
void Chain::believe(std::map<std::string, SlurmJob>& at_work) {
  std::erase_if(at_work, [this](const auto& known) {
    const auto& [name, found] = known;
    const uint32_t job = number_of_.at(name);
    if (jobs_[job].state != JobState::Lost || has_moved_on(job)) return false;
    if (!found.name.starts_with(plan_.run + ".")) return true;
    std::optional<JobState> last;
    for (const JobEvent& event :
         attempt_events(job_directory(plan_, job), name, jobs_[job].attempt)) {
      if (event.state) last = event.state;
    }
    if (last && is_final(*last)) return false;  // its own word
    record_.move(job, last == JobState::Running ? JobState::Running : JobState::Queued, ids_[job],
                 "SLURM has it after all");
    return false;
  });
}

/// What SLURM still has, and nothing stands in the way of any more: a job that it waits for was
/// lost for a while only.
void Chain::unblock(const std::map<std::string, SlurmJob>& at_work) {
  for (const auto& [name, found] : at_work) {
    const uint32_t job = number_of_.at(name);
    if (jobs_[job].state != JobState::Blocked || broken_parent(job)) continue;
    record_.move(job, JobState::Queued, ids_[job]);
  }
}

/// A job that this one waits for and that ended badly.
std::optional<uint32_t> Chain::broken_parent(uint32_t job) const {
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      if (is_broken(jobs_[parent].state)) return parent;
    }
  }
  return std::nullopt;
}

/// Whether the job has recorded something since we read its record, while SLURM was asked: what
/// SLURM's answer means is then not said of that. What is planned again only has an id of before.
bool Chain::has_moved_on(uint32_t job) {
  const JobState before = jobs_[job].state;
  if (before == JobState::Planned) return false;
  for (JobEvent& event :
       attempt_events(job_directory(plan_, job), plan_.jobs[job].name, jobs_[job].attempt)) {
    // That it ran once was known when it was given up.
    if (before == JobState::Lost && event.state && !is_final(*event.state)) continue;
    record_.note(job, std::move(event));
  }
  return jobs_[job].state != before;
}

/// What waits for a job that ended badly never starts, whatever SLURM shows of it.
bool Chain::block_if_hopeless(uint32_t job) {
  const JobState state = jobs_[job].state;
  if (state == JobState::Blocked) return broken_parent(job).has_value();
  const bool has_no_job = state == JobState::Submitting && looked_up_;
  if (state != JobState::Queued && state != JobState::Planned && !has_no_job) return false;
  const auto parent = broken_parent(job);
  if (!parent) return false;
  record_.move(job, JobState::Blocked, "", "waits for " + plan_.jobs[*parent].name);
  return true;
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

/// Not if it was asked before: whoever asks a second time does not want to wait for checkpoints.
Chain::Asked Chain::ask_to_save(uint32_t job, std::string& refusal) {
  const fs::path attempt = attempt_directory(job_directory(plan_, job), jobs_[job].attempt);
  const fs::path request = AttemptFiles{attempt}.cancel_request();
  if (fs::exists(request)) return Asked::Before;
  const JobAnswer answer = services_.tools.signal_batch(ids_[job], "INT");
  if (answer.kind == JobAnswer::Kind::Refused) {
    refusal = answer.message;
    return Asked::Refused;
  }
  make_directories(attempt);  // it may not have begun yet
  write_file_atomic(request, "");
  return Asked::Now;
}

CancelResult Chain::cancel(const std::vector<std::string>& names) {
  CancelResult result;
  check_names_exist(plan_, names);
  ChainResult found_again;
  adopt(found_again);  // of which SLURM's answer was lost
  const auto at_work = look(Doubt::Leave);
  std::string refusal;
  size_t refused = 0;
  std::vector<uint32_t> waiting;
  std::vector<uint32_t> running;  // that were asked before
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    if (!is_meant(plan_, job, names)) continue;
    if (jobs_[job].state == JobState::Submitting) {  // a submission that did not get so far
      ids_[job].clear();
      waiting.push_back(job);
      continue;
    }
    const auto found = at_work.find(plan_.jobs[job].name);
    if (found == at_work.end()) continue;
    if (found->second.state == SlurmState::Pending) {
      waiting.push_back(job);
      continue;
    }
    const Asked asked = ask_to_save(job, refusal);
    if (asked == Asked::Before) running.push_back(job);
    result.saving += asked == Asked::Now;
    refused += asked == Asked::Refused;
  }
  refused += take_from_slurm(waiting, running, refusal);
  result.cancelled = waiting.size() + running.size();
  // First SLURM: what is recorded as cancelled may be submitted again at once.
  crash_point("cancel");
  for (const uint32_t job : waiting) {
    record_.move(job, JobState::Cancelled, "", "cancelled by `dlflow cancel`");
  }
  record_.sync();
  record_.save();
  services_.store.settle_run_state(plan_.directory.string());
  if (refused == 0) return result;
  throw Error(Errc::InvalidInput,
              "scancel refuses " + std::to_string(refused) + " of " +
                  std::to_string(refused + result.cancelled + result.saving) + " jobs of " +
                  plan_.run + ": " + refusal +
                  "\n       Those that wait end without having run once SLURM starts them; "
                  "`dlflow run --resume " +
                  plan_.run + "` lets them run after all.");
}

/// Leaves in both lists what SLURM has ended. How many it has not.
size_t Chain::take_from_slurm(std::vector<uint32_t>& waiting, std::vector<uint32_t>& running,
                              std::string& refusal) {
  std::vector<WithdrawnAttempt> attempts;
  std::vector<std::string> ids;
  for (const uint32_t job : waiting) {
    attempts.push_back({plan_.jobs[job].name, jobs_[job].attempt});
    if (!ids_[job].empty()) ids.push_back(ids_[job]);
  }
  for (const uint32_t job : running) ids.push_back(ids_[job]);
  withdraw(plan_.directory, attempts);
  crash_point("withdrawn");
  if (ids.empty()) return 0;
  const JobAnswer answer = services_.tools.cancel(ids);
  if (answer.kind == JobAnswer::Kind::Done) return 0;
  refusal = answer.message;
  std::set<std::string> ended;
  for (const SlurmJob& job : services_.tools.queue()) {
    if (is_over(job.state) || job.state == SlurmState::Completing) ended.insert(job.id);
  }
  const auto is_left = [&](uint32_t job) {
    return !ids_[job].empty() && !ended.contains(ids_[job]);
  };
  return std::erase_if(waiting, is_left) + std::erase_if(running, is_left);
}

}  // namespace dlflow
