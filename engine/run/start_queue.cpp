#include "engine/run/start_queue.h"

#include <iterator>

namespace dlflow {

const Step& StartQueue::step_of(uint32_t job) const {
  return plan_.workflow.steps[plan_.jobs[job].step];
}

int StartQueue::max_parallel(uint32_t job) const { return step_of(job).matrix.max_parallel; }

/// Steps with a limit of their own have their own lanes, so that they let others pass; so do steps
/// that run when others may not.
void StartQueue::make_ready(uint32_t job) {
  const bool is_apart = max_parallel(job) > 0 || step_of(job).always;
  ready_.push(job, *plan_.jobs[job].resources, is_apart ? plan_.jobs[job].step + 1 : 0);
}

void StartQueue::push(uint32_t job) {
  make_ready(job);
  if (step_of(job).always) ++num_always_;
}

void StartQueue::push(uint32_t job, Time time) {
  delayed_.emplace(time, job);
  if (step_of(job).always) ++num_always_;
}

bool StartQueue::has_room(uint32_t job, const std::set<uint32_t>& active) const {
  if (const int most = max_parallel(job); most > 0) {
    const PlannedJob& planned = plan_.jobs[job];
    const uint32_t first = job - planned.element;
    const auto end = first + uint32_t(plan_.steps[planned.step].elements->size());
    if (std::distance(active.lower_bound(first), active.lower_bound(end)) >= most) return false;
  }
  return backend_.has_room(*plan_.jobs[job].resources);
}

std::optional<uint32_t> StartQueue::pop(Time now, const std::set<uint32_t>& active,
                                        const std::function<bool(uint32_t job)>& may_start) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    make_ready(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
  }
  const auto job =
      ready_.pop([&](uint32_t next) { return may_start(next) && has_room(next, active); });
  if (job && step_of(*job).always) --num_always_;
  return job;
}

std::optional<Time> StartQueue::next_time() const {
  if (delayed_.empty()) return std::nullopt;
  return delayed_.begin()->first;
}

std::vector<uint32_t> StartQueue::take_all() {
  std::vector<uint32_t> jobs;
  while (const auto job = ready_.pop([](uint32_t) { return true; })) jobs.push_back(*job);
  for (const auto& [time, job] : delayed_) jobs.push_back(job);
  delayed_.clear();
  num_always_ = 0;
  return jobs;
}

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
