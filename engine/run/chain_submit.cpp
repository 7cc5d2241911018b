#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/chain_work.h"
#include "engine/slurm/array_range.h"
#include "engine/slurm/batch_file.h"
#include "engine/slurm/limits.h"

/// What of a chain SLURM does not have yet, and how it gets that, once.
namespace dlflow {
namespace {

constexpr int kDefaultArraySize = 1001;  // SLURM's default of MaxArraySize

bool is_new(const Standing& standing) { return standing.kind == Standing::Kind::ToSubmit; }

/// Of what is to be submitted only the first `most` stay: nothing waits then for a job that is not
/// there. How many do not.
size_t leave_out_beyond(size_t most, std::vector<Standing>& standings) {
  size_t left_out = 0;
  for (Standing& standing : standings) {
    if (!is_new(standing)) continue;
    if (most > 0) {
      --most;
      continue;
    }
    standing.kind = Standing::Kind::LeftOut;
    ++left_out;
  }
  return left_out;
}

}  // namespace

/// Looks up the batches of jobs of which it is not known whether SLURM has them: what it has of
/// them may have begun.
void Chain::adopt(ChainResult& result) {
  std::set<std::string> doubtful;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    if (jobs_[job].state == JobState::Submitting) doubtful.insert(plan_.jobs[job].name);
  }
  std::multimap<std::string, BatchEntry> suspects;  // by the batch's name
  const std::vector<BatchRange> ranges = batch_ranges(plan_.directory);
  for (auto range = ranges.rbegin(); range != ranges.rend() && !doubtful.empty(); ++range) {
    for (BatchEntry& entry : read_batch_entries(batch_file(plan_.directory, *range))) {
      if (doubtful.erase(entry.job) == 0) continue;
      const uint32_t step = plan_.jobs[number_of_.at(entry.job)].step;
      suspects.emplace(batch_name(entry.batch, step), std::move(entry));
    }
  }
  if (suspects.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, entry] : suspects) {
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  std::map<std::string, std::string> found;
  for (const SlurmJob& job : services_.tools.find_by_name(names, plan_.created)) {
    found[job.name] = array_id(job.id);
  }
  for (const auto& [name, entry] : suspects) {
    if (const auto id = found.find(name); id != found.end()) adopt(entry, id->second, result);
  }
}

void Chain::adopt(const BatchEntry& entry, const std::string& id, ChainResult& result) {
  const uint32_t job = number_of_.at(entry.job);
  const bool is_task = !plan_.jobs[job].label().empty();
  ids_[job] = is_task ? id + "_" + std::to_string(entry.task) : id;
  record_.move(job, JobState::Queued, ids_[job]);
  result.adopted.push_back(entry.job);
}

/// Known results whose place in the chain has come.
void Chain::reuse() {
  for (const auto& [job, known] : plan_.reused) {
    if (jobs_[job].state != JobState::Planned) continue;
    JobEvent cached;
    cached.job = plan_.jobs[job].name;
    cached.state = JobState::Cached;
    cached.at = services_.clock.now();
    cached.reason = "reused from " + known.run;
    cached.fingerprint = known.fingerprint;
    cached.outputs = known.outputs;
    cached.metrics = known.metrics;
    cached.reused_from = known.directory.string();
    record_.write(job, std::move(cached));
  }
}

std::vector<Standing> Chain::standing() const {
  using Kind = Standing::Kind;
  std::vector<Standing> result(jobs_.size());
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const JobState state = jobs_[job].state;
    Standing& mine = result[job];
    if (satisfies_dependents(state) || state == JobState::Skipped) continue;
    mine = {Kind::LeftOut, ids_[job]};
    if (state == JobState::Queued || state == JobState::Running || stuck_.contains(job)) {
      mine = {Kind::Waiting, ids_[job]};
    } else if (state == JobState::Planned || state == JobState::Submitting) {
      mine.kind = Kind::ToSubmit;
    }
    for (const JobRange& range : plan_.graph.parents(job)) {
      for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
        if (result[parent].kind == Kind::LeftOut) mine.kind = Kind::LeftOut;
      }
    }
  }
  return result;
}

/// As standing(), but what finds no room below the limit on this user's jobs is left out: the last
/// ones, so that nothing waits for a job that is not there.
std::vector<Standing> Chain::standing_within_limit(ChainResult& result) {
  std::vector<Standing> standings = standing();
  const auto wanted = std::count_if(standings.begin(), standings.end(), is_new);
  const int limit = plan_.profile.limits.jobs;
  result.held_back = 0;
  if (limit == 0 || wanted == 0) return standings;
  const std::vector<SlurmJob> queue = services_.tools.queue();
  const auto there = std::count_if(queue.begin(), queue.end(),
                                   [](const SlurmJob& job) { return !is_over(job.state); });
  result.held_back = leave_out_beyond(size_t(std::max<ptrdiff_t>(0, limit - there)), standings);
  return standings;
}

/// What a stuck job has to wait for now: empty if all its parents are done, whatever SLURM thinks
/// of them. Nothing if a parent has yet to be submitted.
std::optional<std::string> Chain::new_dependency(uint32_t job) const {
  std::map<std::string, bool> ids;  // and whether it is the counterpart of this one
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      const JobState state = jobs_[parent].state;
      if (satisfies_dependents(state) || state == JobState::Skipped) continue;
      // One that is planned again has the id of its last attempt still.
      if (state == JobState::Planned || ids_[parent].empty()) return std::nullopt;
      const auto task = array_task(ids_[parent]);
      ids[ids_[parent]] = range.count == 1 && task && task == array_task(ids_[job]);
    }
  }
  std::vector<Link> links;
  std::vector<std::string> arrays;
  for (const auto& [id, corresponds] : ids) {
    if (corresponds) {  // the same words for each task of an array
      links.push_back({.kind = Link::Kind::SameTask, .batch = uint32_t(arrays.size())});
      arrays.emplace_back(array_id(id));
    } else {
      links.push_back({.kind = Link::Kind::Id, .id = id});
    }
  }
  return dependency(links, arrays);
}

/// Jobs that SLURM has kept wait for what is there now; one request for tasks of an array that wait
/// for the same. The record comes first: one that says less than SLURM knows is repaired by the
/// next call. False if SLURM has dropped some meanwhile.
bool Chain::repoint(ChainResult& result) {
  std::map<std::pair<std::string, std::string>, std::vector<uint32_t>> groups;  // by array and text
  for (const uint32_t job : std::exchange(stuck_, {})) {
    if (jobs_[job].state == JobState::Planned) {
      record_.move(job, JobState::Submitting);
      record_.move(job, JobState::Queued, ids_[job]);
    }
    if (const auto dependency = new_dependency(job)) {
      groups[{std::string(array_id(ids_[job])), *dependency}].push_back(job);
    } else {  // the parent is one that SLURM has dropped: it comes in the next round
      stuck_.insert(job);
    }
  }
  record_.sync();
  bool all = true;
  for (const auto& [key, jobs] : groups) {
    crash_point("repoint");
    if (repoint_tasks(key.first, jobs, key.second, result)) continue;
    for (const uint32_t job : jobs) all = repoint_one(job, key.second, result) && all;
  }
  return all;
}

/// False if SLURM did not do it for all of them.
bool Chain::repoint_tasks(const std::string& array, const std::vector<uint32_t>& jobs,
                          const std::string& dependency, ChainResult& result) {
  if (jobs.size() == 1) return false;
  std::vector<uint32_t> tasks;
  for (const uint32_t job : jobs) tasks.push_back(array_task(ids_[job]).value_or(0));
  const std::string range = format_array_range(tasks);
  if (range.size() > kMaxArrayText) return false;
  const std::string id = array + "_[" + range + "]";
  if (services_.tools.update_dependency(id, dependency).kind != JobAnswer::Kind::Done) return false;
  for (const uint32_t job : jobs) {
    result.repointed.push_back(plan_.jobs[job].name + " " + ids_[job]);
  }
  return true;
}

bool Chain::repoint_one(uint32_t job, const std::string& dependency, ChainResult& result) {
  const JobAnswer answer = services_.tools.update_dependency(ids_[job], dependency);
  if (answer.kind == JobAnswer::Kind::Done) {
    result.repointed.push_back(plan_.jobs[job].name + " " + ids_[job]);
    return true;
  }
  const WithdrawnAttempt dropped{plan_.jobs[job].name, jobs_[job].attempt};
  withdraw(plan_.directory, {&dropped, 1});
  if (answer.kind == JobAnswer::Kind::Refused) services_.tools.cancel({{ids_[job]}});
  record_.move(job, JobState::Lost, "", "SLURM could not keep it: " + answer.message);
  record_.move(job, JobState::Planned);
  ids_[job].clear();
  return false;
}

/// Where a limit that only SLURM knows refuses an array, the half of it is tried, and so on: what
/// it takes is submitted.
void Chain::submit_what_is_missing(ChainResult& result) {
  const int allowed = plan_.profile.limits.array_size;
  const int size = allowed > 0 ? allowed : kDefaultArraySize;
  size_t most = jobs_.size();  // of a round
  for (bool complete = false; !complete;) {
    std::vector<Standing> standings = standing_within_limit(result);
    complete = leave_out_beyond(most, standings) == 0;
    try {
      submit(plan_batches(plan_, standings, uint32_t(size)), result);
      complete = repoint(result) && complete;
    } catch (const TooManyJobs& refused) {
      if (refused.jobs == 1) throw;
      most = refused.jobs / 2;
      complete = false;
    }
  }
}

ChainResult Chain::submit(const PlanAgain& again) {
  ChainResult result;
  adopt(result);
  looked_up_ = true;
  const auto at_work = look(Doubt::GiveUp);
  block_descendants();
  std::vector<WithdrawnAttempt> wanted;  // that an earlier `cancel` did not get out of the queue
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    result.kept += satisfies_dependents(jobs_[job].state);
    const auto found = at_work.find(plan_.jobs[job].name);
    if (found == at_work.end() || found->second.state != SlurmState::Pending) continue;
    const JobState state = jobs_[job].state;
    const bool never = found->second.reason == kNeverSatisfied;
    if (state == JobState::Blocked || state == JobState::Planned || never) stuck_.insert(job);
    wanted.push_back({plan_.jobs[job].name, jobs_[job].attempt});
  }
  want_again(plan_.directory, wanted);
  prepare_again(plan_, jobs_, again, services_.clock.now(),
                [](const Plan& plan) { check_limits(plan, std::nullopt); });
  std::vector<WithdrawnAttempt> lost;  // of which SLURM may have a job after all
  plan_again(plan_, jobs_, again, [&](uint32_t job, JobState state, const std::string& reason) {
    if (jobs_[job].state == JobState::Lost && !ids_[job].empty()) {
      lost.push_back({plan_.jobs[job].name, jobs_[job].attempt});
    }
    record_.move(job, state, "", reason);
  });
  withdraw(plan_.directory, lost);
  std::erase_if(stuck_, [this](uint32_t job) { return jobs_[job].state == JobState::Blocked; });
  reuse();
  services_.store.set_run_state(plan_.directory.string(), RunState::Running, services_.clock.now());
  try {
    submit_what_is_missing(result);
  } catch (...) {
    record_.sync();  // what was submitted is
    record_.save();
    throw;
  }
  record_.sync();
  record_.save();
  services_.store.settle_run_state(plan_.directory.string());
  return result;
}

}  // namespace dlflow
