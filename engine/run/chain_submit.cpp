#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "engine/run/chain_work.h"
#include "engine/slurm/batch_file.h"
#include "engine/slurm/limits.h"

/// What of a chain SLURM does not have yet, and how it gets that, once.
namespace dlflow {
namespace {

constexpr int kDefaultArraySize = 1001;  // SLURM's default of MaxArraySize

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
    mine.kind = Kind::LeftOut;
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
  const auto is_new = [](const Standing& s) { return s.kind == Standing::Kind::ToSubmit; };
  const auto wanted = std::count_if(standings.begin(), standings.end(), is_new);
  const int limit = plan_.profile.limits.jobs;
  result.held_back = 0;
  if (limit == 0 || wanted == 0) return standings;
  const std::vector<SlurmJob> queue = services_.tools.queue();
  const auto there = std::count_if(queue.begin(), queue.end(),
                                   [](const SlurmJob& job) { return !is_over(job.state); });
  auto room = std::max<ptrdiff_t>(0, limit - there);
  for (Standing& standing : standings) {
    if (!is_new(standing) || room-- > 0) continue;
    standing.kind = Standing::Kind::LeftOut;
    ++result.held_back;
  }
  return standings;
}

/// What a stuck job has to wait for now: empty if all its parents are done, whatever SLURM thinks
/// of them. Nothing if a parent has yet to be submitted.
std::optional<std::string> Chain::new_dependency(uint32_t job) const {
  std::set<std::string> ids;
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      const JobState state = jobs_[parent].state;
      if (satisfies_dependents(state) || state == JobState::Skipped) continue;
      // One that is planned again has the id of its last attempt still.
      if (state == JobState::Planned || ids_[parent].empty()) return std::nullopt;
      ids.insert(ids_[parent]);
    }
  }
  std::vector<Link> links;
  for (const std::string& id : ids) links.push_back({.kind = Link::Kind::Id, .id = id});
  return dependency(links, {});
}

/// Jobs that SLURM has kept wait for what is there now. The record comes first: one that says less
/// than SLURM knows is repaired by the next call. False if SLURM has dropped some meanwhile.
bool Chain::repoint(ChainResult& result) {
  bool all = true;
  for (const uint32_t job : std::exchange(stuck_, {})) {
    if (jobs_[job].state == JobState::Planned) {
      record_.move(job, JobState::Submitting);
      record_.move(job, JobState::Queued, ids_[job]);
      record_.sync();
    }
    crash_point("repoint");
    const auto dependency = new_dependency(job);
    if (!dependency) {  // the parent is one that SLURM has dropped: it comes in the next round
      stuck_.insert(job);
      continue;
    }
    const JobAnswer answer = services_.tools.update_dependency(ids_[job], *dependency);
    if (answer.kind == JobAnswer::Kind::Done) {
      result.repointed.push_back(plan_.jobs[job].name + " " + ids_[job]);
      continue;
    }
    if (answer.kind == JobAnswer::Kind::Refused) services_.tools.cancel({{ids_[job]}});
    record_.move(job, JobState::Lost, "", "SLURM could not keep it: " + answer.message);
    record_.move(job, JobState::Planned);
    ids_[job].clear();
    all = false;
  }
  return all;
}

void Chain::submit_what_is_missing(ChainResult& result) {
  const int allowed = plan_.profile.limits.array_size;
  const int size = allowed > 0 ? allowed : kDefaultArraySize;
  do {
    submit(plan_batches(plan_, standing_within_limit(result), uint32_t(size)), result);
  } while (!repoint(result));
}

ChainResult Chain::submit(const PlanAgain& again) {
  ChainResult result;
  adopt(result);
  looked_up_ = true;
  const auto at_work = look(Doubt::GiveUp);
  block_descendants();
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    result.kept += satisfies_dependents(jobs_[job].state);
    const auto found = at_work.find(plan_.jobs[job].name);
    if (found == at_work.end() || found->second.state != SlurmState::Pending) continue;
    const JobState state = jobs_[job].state;
    const bool never = found->second.reason == "DependencyNeverSatisfied";
    if (state == JobState::Blocked || state == JobState::Planned || never) stuck_.insert(job);
  }
  prepare_again(plan_, jobs_, again, services_.clock.now(),
                [](const Plan& plan) { check_limits(plan, std::nullopt); });
  plan_again(plan_, jobs_, again, [this](uint32_t job, JobState state, const std::string& reason) {
    record_.move(job, state, "", reason);
  });
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
