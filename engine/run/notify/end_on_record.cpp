#include "engine/run/notify/end_on_record.h"

#include <map>
#include <vector>

#include "base/file.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/decide/jobs.h"
#include "engine/plan/run_directory.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The progress of one job, by the record of the engine and of its newest attempt.
struct OnRecord {
  JobState state = JobState::Planned;
  int attempt = 0;
  bool has_begun = false;  ///< the attempt has a folder
  std::string reason = {};
};

/// The last state of each job in RUN/events.jsonl.
std::map<JobName, JobEvent> engine_states(const fs::path& run_directory) {
  std::map<JobName, JobEvent> last;
  for (JobEvent& event : EventTail(engine_events_file(run_directory)).read()) {
    if (event.state) last[event.job] = std::move(event);
  }
  return last;
}

OnRecord on_record(const Plan& plan, uint32_t job, const std::map<JobName, JobEvent>& engine) {
  const fs::path directory = job_directory(plan, job);
  const JobName& name = plan.jobs[job].name;
  OnRecord found;
  const auto decided = engine.find(name);
  if (decided != engine.end()) {
    found = {.state = *decided->second.state,
             .attempt = decided->second.attempt,
             .reason = decided->second.reason};
  }
  const std::vector<int> numbers = attempts(directory);
  if (numbers.empty() || numbers.back() < found.attempt) return found;
  if (found.state == JobState::Planned && found.attempt == numbers.back()) return found;
  found.attempt = numbers.back();
  found.has_begun = true;
  const auto last = last_state(directory, name, numbers.back());
  if (!last) return found;
  if (is_final(*last->state)) found.state = *last->state;
  found.reason = last->reason;
  return found;
}

/// The last state of one job in RUN/events.jsonl; only its own lines are parsed as JSON.
std::optional<JobEvent> engine_state(const fs::path& run_directory, const JobName& job) {
  const std::string quoted = Json(job).dump();
  std::optional<JobEvent> last;
  const auto text = read_file_if_exists(engine_events_file(run_directory));
  for (const std::string& line : split(text.value_or(""), '\n')) {
    if (line.find(quoted) == std::string::npos) continue;
    const Json json = parse_json(line);
    if (!json.is_object()) continue;  // torn
    JobEvent event = job_event_from_json(json);
    if (event.job == job && event.state) last = std::move(event);
  }
  return last;
}

/// Whether a parent on record keeps a job from running, and whether all parents have ended.
struct ParentsOnRecord {
  bool hopeless = false;
  bool ended = true;
};

ParentsOnRecord look_at_parents(const Plan& plan, uint32_t job,
                                const std::vector<JobProgress>& known) {
  const auto step_of = [&plan](uint32_t of) -> const Step& {
    return plan.workflow.steps[plan.jobs[of].step];
  };
  ParentsOnRecord parents;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    const JobState state = known[parent].state;
    parents.ended &= is_final(state);
    parents.hopeless |= is_broken(state) && !lets_run(step_of(job), step_of(parent), state);
  });
  return parents;
}

constexpr size_t kFewParents = 8;

}  // namespace

/// Goes from the last job to the first until one shows that the run continues: the unfinished part
/// of a run is mostly at its end, so that few files are read as long as much is left. There a job
/// with many parents is passed over, since each of them shows the same later.
std::optional<News> end_on_record(const Plan& plan) {
  const std::map<JobName, JobEvent> engine = engine_states(plan.directory);
  std::vector<JobProgress> known(plan.jobs.size());
  std::vector<OnRecord> records(plan.jobs.size());
  std::vector<bool> was_read(plan.jobs.size(), false);
  const auto read = [&](uint32_t job) {
    if (was_read[job]) return;
    was_read[job] = true;
    records[job] = on_record(plan, job, engine);
    known[job].state = records[job].state;
    known[job].attempt = records[job].attempt;
  };
  for (uint32_t job = uint32_t(plan.jobs.size()); job-- > 0;) {
    read(job);
    if (is_final(known[job].state)) continue;
    if (records[job].has_begun) return std::nullopt;
    if (plan.graph.num_parents(job) > kFewParents) continue;
    plan.graph.each_parent(job, read);
    const ParentsOnRecord parents = look_at_parents(plan, job, known);
    if (parents.ended && !parents.hopeless) return std::nullopt;
  }
  News news{.event = Notifications::Event::End, .run = plan.run};
  for (uint32_t job = 0; job < known.size(); ++job) {  // parents first
    if (!is_final(known[job].state)) {
      if (!look_at_parents(plan, job, known).hopeless) return std::nullopt;
      known[job].state = JobState::Blocked;
    }
    news.number += known[job].attempt;
    const bool failed =
        is_failure(known[job].state) && !plan.workflow.steps[plan.jobs[job].step].allow_failure;
    if (failed && news.job.empty()) {
      news.job = plan.jobs[job].name;
      news.state = known[job].state;
      news.reason = records[job].reason;
    }
  }
  const RunState state = state_of_run(Jobs(plan, std::move(known)));
  if (state != RunState::Succeeded && state != RunState::Failed) return std::nullopt;
  if (state == RunState::Failed && news.job.empty()) news.state = JobState::Failed;
  return news;
}

bool is_at_work(const fs::path& run_directory, const JobName& job) {
  const fs::path directory = job_directory(run_directory, job);
  const std::vector<int> numbers = attempts(directory);
  if (numbers.empty()) return false;
  const auto last = last_state(directory, job, numbers.back());
  if (!last || is_final(*last->state)) return false;
  // Only the engine records that an attempt vanished or was given up.
  const auto decided = engine_state(run_directory, job);
  if (!decided || decided->attempt < numbers.back()) return true;
  return !is_final(*decided->state) && decided->state != JobState::Planned;
}

}  // namespace dlflow
