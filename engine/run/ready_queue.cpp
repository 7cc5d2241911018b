#include "engine/run/ready_queue.h"

namespace dlflow {

void ReadyQueue::push(uint32_t job, const Resources& resources) {
  const Key key{resources.ranks, resources.cpus_per_rank, resources.gpus_per_rank,
                resources.memory_bytes};
  Group& group = groups_[key];
  group.resources = resources;
  group.jobs.push(job);
}

std::optional<uint32_t> ReadyQueue::pop(const std::function<bool(const Resources&)>& has_room) {
  auto first = groups_.end();
  for (auto group = groups_.begin(); group != groups_.end(); ++group) {
    const bool earlier =
        first == groups_.end() || group->second.jobs.top() < first->second.jobs.top();
    if (earlier && has_room(group->second.resources)) first = group;
  }
  if (first == groups_.end()) return std::nullopt;
  FirstInPlan& jobs = first->second.jobs;
  const uint32_t job = jobs.top();
  jobs.pop();
  if (jobs.empty()) groups_.erase(first);
  return job;
}

}  // namespace dlflow
