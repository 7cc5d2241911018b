#include "engine/run/local/ready_queue.h"

namespace dlflow {

void ReadyQueue::push(uint32_t job, const Resources& resources, uint32_t lane) {
  kinds_[{resources.ranks, resources.cpus_per_rank, resources.gpus_per_rank, resources.memory_bytes,
          lane}]
      .push(job);
}

std::optional<uint32_t> ReadyQueue::pop(const std::function<bool(uint32_t job)>& has_room) {
  auto first = kinds_.end();
  for (auto kind = kinds_.begin(); kind != kinds_.end(); ++kind) {
    const uint32_t job = kind->second.top();
    const bool earlier = first == kinds_.end() || job < first->second.top();
    if (earlier && has_room(job)) first = kind;
  }
  if (first == kinds_.end()) return std::nullopt;
  const uint32_t job = first->second.top();
  first->second.pop();
  if (first->second.empty()) kinds_.erase(first);
  return job;
}

}  // namespace dlflow
