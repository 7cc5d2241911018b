#include "engine/run/chain/observation.h"

#include <optional>
#include <set>
#include <utility>

#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

/// Whether the task of the job may be at work for others, but not for this one any more.
bool is_over_in_task(const ChainRun& run, uint32_t job) {
  const JobState state = run.jobs()[job].state;
  if (!run.is_packed(job) || state == JobState::Queued || state == JobState::Running) return false;
  return state == JobState::Submitting || run.has_own_end(job);
}

/// What the batch system may have: also what is blocked or planned again, and was submitted once,
/// and what was given up as lost.
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

/// A job that was given up as lost, and that the batch system has after all, is in the state of its
/// record.
void believe(ChainRun& run, JobsAtWork& at_work) {
  std::erase_if(at_work, [&run](const auto& known) {
    const uint32_t job = run.number_of(known.first);
    if (run.jobs()[job].state != JobState::Lost || run.has_moved_on(job)) return false;
    const auto last = run.own_state(job);
    if (last && is_final(*last)) return false;  // its own word
    run.record().decide(job, last == JobState::Running ? JobState::Running : JobState::Queued,
                        std::string(run.batch().name()) + " has it after all", run.id(job));
    return false;
  });
}

/// An element may have ended well in its task before `dlflow cancel` took that from the queue, and
/// its record may show only now.
void believe_successes(ChainRun& run) {
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    if (run.jobs()[job].state != JobState::Cancelled || !run.is_packed(job)) continue;
    if (run.own_state(job) == JobState::Succeeded) run.has_moved_on(job);
  }
}

/// What the batch system still has, and nothing stands in the way of any more: a job that it waits
/// for was lost for a while only.
void unblock(ChainRun& run, const JobsAtWork& at_work) {
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {  // parents before children
    if (run.jobs()[job].state != JobState::Blocked || !at_work.contains(run.name(job))) continue;
    if (run.jobs().obstacle(job)) continue;
    run.record().decide(job, JobState::Queued, "", run.id(job));
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
    // Of a task that several share nobody can say what each of them used.
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

}  // namespace dlflow
