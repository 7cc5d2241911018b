#include "engine/run/chain/repair.h"

#include <map>
#include <set>
#include <utility>

#include "base/fault.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/again.h"
#include "engine/run/chain/observation.h"

namespace dlflow {

void ChainRepair::drop_blocked() {
  std::erase_if(stuck_,
                [this](uint32_t job) { return run_.jobs()[job].state == JobState::Blocked; });
}

/// Empty if all parents are done, even if the batch system does not know it. Nothing if a parent
/// has yet to be submitted.
std::optional<ChainRepair::Dependencies> ChainRepair::new_dependencies(uint32_t job) const {
  std::map<std::string, Dependency::Kind> ids;
  for (const JobRange& range : run_.plan().graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      const JobState state = run_.jobs()[parent].state;
      if (lets_run(run_.step_of(job), run_.step_of(parent), state)) continue;
      const std::string& id = run_.id(parent);
      // A job that is planned again still has the id of its last attempt.
      if (state == JobState::Planned || id.empty()) return std::nullopt;
      const auto task = array_task(id);
      const bool alike = run_.step_of(job).matrix.pack == run_.step_of(parent).matrix.pack;
      const bool corresponds =
          range.count == 1 && alike && task && task == array_task(run_.id(job));
      const bool by_end = waits_for_end(run_.step_of(job), run_.step_of(parent));
      ids[id] = by_end        ? Dependency::Kind::End
                : corresponds ? Dependency::Kind::SameTask
                              : Dependency::Kind::Success;
    }
  }
  Dependencies dependencies;
  for (const auto& [id, kind] : ids) {
    // The same words for each task of an array.
    const bool whole = kind == Dependency::Kind::SameTask;
    dependencies.push_back({kind, whole ? std::string(array_id(id)) : id});
  }
  return dependencies;
}

/// The jobs that wait in the task of `job`, itself among them, for any reason.
std::vector<uint32_t> ChainRepair::waiting_sharers(uint32_t job) const {
  std::vector<uint32_t> sharers = run_.sharers(job);
  std::erase_if(sharers, [&](uint32_t one) {
    return !stuck_.contains(one) && run_.jobs()[one].state != JobState::Queued;
  });
  return sharers;
}

/// The dependencies of a shared task. If only some of the sharers need a parent, any end of it will
/// do (plan_batches).
std::optional<ChainRepair::Dependencies> ChainRepair::new_dependencies(
    const std::vector<uint32_t>& sharers) const {
  std::map<Dependency, size_t> needed;  // the number of sharers that need each
  for (const uint32_t job : sharers) {
    const auto dependencies = new_dependencies(job);
    if (!dependencies) return std::nullopt;
    for (const Dependency& dependency : *dependencies) ++needed[dependency];
  }
  std::set<Dependency> dependencies;
  for (const auto& [dependency, by] : needed) {
    const bool only_some = by < sharers.size() && dependency.kind == Dependency::Kind::Success;
    dependencies.insert(only_some ? Dependency{Dependency::Kind::End, dependency.id} : dependency);
  }
  return Dependencies(dependencies.begin(), dependencies.end());
}

bool ChainRepair::repoint(std::vector<std::string>& repointed) {
  using Group = std::pair<std::string, Dependencies>;  // array, what its tasks wait for
  std::map<Group, std::vector<uint32_t>> groups;
  std::set<uint32_t> left;
  while (!stuck_.empty()) {
    const std::vector<uint32_t> sharers = waiting_sharers(*stuck_.begin());
    const auto dependencies = new_dependencies(sharers);
    if (dependencies) {
      const std::string array(array_id(run_.id(sharers.front())));
      auto& group = groups[{array, *dependencies}];
      group.insert(group.end(), sharers.begin(), sharers.end());
    }
    for (const uint32_t job : sharers) {
      // The batch system has dropped the parent: it comes in the next round.
      if (stuck_.erase(job) > 0 && !dependencies) left.insert(job);
    }
  }
  stuck_ = std::move(left);
  run_.record().sync();
  bool all = true;
  for (const auto& [group, jobs] : groups) {
    const Dependencies& dependencies = group.second;
    crash_point("repoint");
    const bool together = jobs.size() > 1 && repoint_together(jobs, dependencies);
    for (const uint32_t job : jobs) {
      if (together || repoint_one(job, dependencies)) {
        repointed.push_back(run_.name(job) + " " + run_.id(job));
      } else {
        all = false;
      }
    }
  }
  return all;
}

bool ChainRepair::repoint_together(const std::vector<uint32_t>& jobs,
                                   const Dependencies& dependencies) {
  std::vector<JobIdentity> tasks;
  for (const uint32_t job : jobs) {
    if (tasks.empty() || tasks.back().id != run_.id(job)) tasks.push_back(run_.identity(job));
  }
  return run_.batch().wait_for(tasks, dependencies).kind == JobAnswer::Kind::Done;
}

/// Returns whether the batch system still has the job.
bool ChainRepair::repoint_one(uint32_t job, const Dependencies& dependencies) {
  const JobIdentity kept = run_.identity(job);
  const JobAnswer answer = run_.batch().wait_for({&kept, 1}, dependencies);
  if (answer.kind == JobAnswer::Kind::Done) return true;
  const WithdrawnAttempt dropped{run_.name(job), run_.jobs()[job].attempt};
  withdraw(run_.plan().directory, {&dropped, 1});
  if (answer.kind == JobAnswer::Kind::Refused) run_.batch().cancel({&kept, 1});
  plan_anew(job, std::string(run_.batch().name()) + " could not keep it: " + answer.message);
  return false;
}

bool ChainRepair::replace(uint32_t job) {
  const JobIdentity waiting = run_.identity(job);
  const WithdrawnAttempt old{run_.name(job), run_.jobs()[job].attempt};
  withdraw(run_.plan().directory, {&old, 1});
  if (waiting_sharers(job).size() > 1) {  // the others keep the task
    if (!pending_ids(run_).contains(waiting.id)) {
      want_again(run_.plan().directory, {&old, 1});
      return false;
    }
  } else {
    run_.batch().cancel({&waiting, 1});
  }
  set_checkpoints_aside(run_.plan(), job, old.attempt);
  stuck_.erase(job);
  plan_anew(job, "submitted again, since a job that it needs runs again");
  return true;
}

void ChainRepair::plan_anew(uint32_t job, const std::string& reason) {
  run_.record().decide(job, JobState::Lost, reason);
  run_.record().plan_again(job, run_.jobs()[job].tries, "");
  run_.forget_id(job);
}

}  // namespace dlflow
