#include "engine/run/chain/observation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "engine/batch/batch_file.h"
#include "engine/decide/standing.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

/// Whether the job's task may be at work only for others that share it.
bool is_over_in_task(const ChainRun& run, uint32_t job) {
  const JobState state = run.jobs()[job].state;
  if (!run.is_packed(job) || state == JobState::Queued || state == JobState::Running) return false;
  return state == JobState::Submitting || run.has_own_end(job);
}

/// The jobs that the batch system may have: also those that were submitted once and are blocked or
/// planned again, and those given up as lost.
std::vector<OpenJob> open_jobs(const ChainRun& run) {
  std::vector<OpenJob> open;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    const JobState state = run.jobs()[job].state;
    if (is_final(state) && state != JobState::Blocked && state != JobState::Lost) continue;
    if (run.id(job).empty() || is_over_in_task(run, job)) continue;
    open.push_back({run.name(job), run.jobs()[job].attempt, state, run.identity(job),
                    run.plan().jobs[job].resources->memory_bytes, run.shares_task(job)});
  }
  return open;
}

/// A job that was given up as lost, and that the batch system has after all, returns to the state
/// of its record.
void believe(ChainRun& run, JobsAtWork& at_work) {
  std::erase_if(at_work, [&run](const auto& known) {
    const uint32_t job = run.number_of(known.first);
    if (run.jobs()[job].state != JobState::Lost || run.has_moved_on(job)) return false;
    const auto last = run.own_state(job);
    if (last && is_final(*last)) return false;  // its own record
    run.record().decide(job, last == JobState::Running ? JobState::Running : JobState::Queued,
                        std::string(run.batch().name()) + " has it after all", run.id(job));
    return false;
  });
}

/// An element may have succeeded in its task before `dlflow cancel` took that from the queue, and
/// its record may show only now.
void believe_successes(ChainRun& run) {
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    if (run.jobs()[job].state != JobState::Cancelled || !run.is_packed(job)) continue;
    if (run.own_state(job) == JobState::Succeeded) run.has_moved_on(job);
  }
}

/// Requeues freed jobs that the batch system still has.
void unblock(ChainRun& run, const JobsAtWork& at_work) {
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {  // parents before children
    if (is_freed(run.jobs(), job) && at_work.contains(run.name(job)))
      run.record().decide(job, JobState::Queued, "", run.id(job));
  }
}

/// The latest batches with jobs that are Submitting, by the batch's name.
std::multimap<std::string, BatchEntry> doubtful_entries(const ChainRun& run) {
  std::set<std::string> doubtful;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    if (run.jobs()[job].state == JobState::Submitting) doubtful.insert(run.name(job));
  }
  std::multimap<std::string, BatchEntry> entries;
  const std::filesystem::path& directory = run.plan().directory;
  const std::vector<BatchRange> ranges = batch_ranges(directory);
  for (auto range = ranges.rbegin(); range != ranges.rend() && !doubtful.empty(); ++range) {
    for (BatchEntry& entry : read_batch_entries(batch_file(directory, *range))) {
      if (doubtful.erase(entry.job) == 0) continue;
      const uint32_t step = run.plan().jobs[run.number_of(entry.job)].step;
      entries.emplace(batch_name(run.plan(), entry.batch, step), std::move(entry));
    }
  }
  return entries;
}

/// Asks the controller about jobs that neither queue nor accounting has. Jobs that it shows join
/// the queue, those that it denies are gone, and about others nothing is known now. The number of
/// questions is limited; the next look asks about the rest.
void ask_controller(BatchSystem& batch, const ChainQuestion& question, ChainAnswer& answer) {
  constexpr size_t kMostAtOnce = 200;
  std::map<std::string, std::vector<JobIdentity>> vanished;  // by job or array
  for (JobIdentity& job : jobs_nobody_knows(question.open, answer.queue, answer.accounting.jobs)) {
    vanished[std::string(array_id(job.id))].push_back(std::move(job));
  }
  size_t asked = 0;
  for (const auto& [array, jobs] : vanished) {
    if (asked++ == kMostAtOnce) return;
    auto shown = batch.show_job(array);
    if (!shown) continue;
    for (const JobIdentity& job : jobs) answer.gone.insert(job.id);
    for (const std::string& id : ids_of_known(jobs, *shown)) answer.gone.erase(id);
    std::move(shown->begin(), shown->end(), std::back_inserter(answer.queue));
  }
}

}  // namespace

std::set<std::string> pending_ids(const ChainRun& run) {
  std::set<std::string> ids;
  for (const BatchJob& job : run.batch().queue()) {
    const bool is_ours = job.name.starts_with(run.plan().run + ".");
    if (is_ours && has_not_begun(job.state)) ids.insert(job.id);
  }
  return ids;
}

ChainQuestion question_about(const ChainRun& run, AskAbout what) {
  ChainQuestion question{.open = open_jobs(run), .ended = {}, .since = run.plan().created};
  if (what == AskAbout::Open) return question;
  std::set<std::string> open;
  for (const OpenJob& job : question.open) open.insert(job.identity.id);
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    // For a task that several share, the usage of each is unknown.
    const std::string& id = run.id(job);
    if (!id.empty() && !open.contains(id) && !run.is_packed(job)) question.ended.push_back(id);
  }
  return question;
}

JobsAtWork take_answer(ChainRun& run, const ChainAnswer& answer) {
  const std::vector<OpenJob> open = open_jobs(run);
  Observation seen = observe(open, answer.queue, answer.accounting.jobs, answer.gone,
                             run.services().clock.now(), run.batch().name());
  for (JobEvent& event : seen.events) {
    const uint32_t job = run.number_of(event.job);
    if (run.has_moved_on(job)) continue;
    if (run.block_if_hopeless(job)) continue;  // the site cancels what can never start
    run.record().observe(job, std::move(event));
  }
  believe_successes(run);
  believe(run, seen.at_work);
  unblock(run, seen.at_work);
  return std::move(seen.at_work);
}

JobsAtWork look_at_open_jobs(ChainRun& run, Doubt doubt) {
  return take_answer(run, ask(run.batch(), question_about(run, AskAbout::Open), doubt));
}

std::vector<std::string> adopt_doubtful(ChainRun& run) {
  const std::multimap<std::string, BatchEntry> entries = doubtful_entries(run);
  if (entries.empty()) return {};
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) {
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  std::map<std::string, std::string> ids;  // by the batch's name
  for (const BatchJob& job : run.batch().find_by_name(names, run.plan().created)) {
    ids[job.name] = array_id(job.id);
  }
  std::vector<std::string> adopted;
  for (const auto& [name, entry] : entries) {
    const auto id = ids.find(name);
    if (id == ids.end()) continue;
    run.take_id(run.number_of(entry.job), id->second, entry.task);
    adopted.push_back(entry.job);
  }
  return adopted;
}

void ChainQuestion::add(ChainQuestion other) {
  const bool first = is_empty();
  std::move(other.open.begin(), other.open.end(), std::back_inserter(open));
  std::move(other.ended.begin(), other.ended.end(), std::back_inserter(ended));
  since = first ? other.since : std::min(since, other.since);
}

ChainAnswer ask(BatchSystem& batch, const ChainQuestion& question, Doubt doubt) {
  ChainAnswer answer;
  std::vector<std::string> ids = question.ended;
  if (!question.open.empty()) {
    answer.queue = batch.queue();
    for (std::string& id : ids_to_ask_for(question.open, answer.queue))
      ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());  // tasks that jobs share are in it more than once
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty()) answer.accounting = batch.accounting(ids, question.since);
  if (doubt == Doubt::GiveUp) {
    std::erase_if(answer.accounting.jobs, [](const BatchJob& job) { return !is_over(job.state); });
  }
  if (answer.accounting.complete) ask_controller(batch, question, answer);
  return answer;
}

}  // namespace dlflow
