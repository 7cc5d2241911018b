#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "engine/backend/backend.h"
#include "engine/model/workflow.h"
#include "engine/plan/plan.h"

namespace dlflow {

/// Jobs that may start, in plan order. A job that finds no room lets later ones of other kinds
/// pass. Jobs of one kind are looked at once, so that 50,000 of them cost no more than one.
class ReadyQueue {
 public:
  /// \param lane  jobs of different lanes are of different kinds, even if they ask for the same.
  void push(uint32_t job, const Resources& resources, uint32_t lane = 0);

  /// Removes and returns the first job for which `has_room` is true. `has_room` must give the same
  /// answer for jobs that ask for the same and are in the same lane.
  std::optional<uint32_t> pop(const std::function<bool(uint32_t job)>& has_room);

  bool empty() const { return kinds_.empty(); }

 private:
  /// Everything that has_room may depend on: ranks, CPUs, GPUs, memory, lane.
  using Kind = std::tuple<int, int, int, uint64_t, uint32_t>;
  using FirstInPlan = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;

  std::map<Kind, FirstInPlan> kinds_;  // none empty
};

/// The jobs to be handed to a back end: when there is room, when their step's max_parallel allows
/// it, and, for retries, when their time has come.
class StartQueue {
 public:
  /// Both must outlive it.
  StartQueue(const Plan& plan, const Backend& backend) : plan_(plan), backend_(backend) {}

  void push(uint32_t job);

  /// Not before `time`.
  void push(uint32_t job, Time time);

  /// Removes and returns the next job that may start. \param active  jobs that are with the back
  /// end. \param may_start  the same for all jobs of a step.
  std::optional<uint32_t> pop(Time now, const std::set<uint32_t>& active,
                              const std::function<bool(uint32_t job)>& may_start);

  bool empty() const { return ready_.empty() && delayed_.empty(); }

  /// Whether it holds jobs whose time has come.
  bool waits_for_room() const { return !ready_.empty(); }

  /// Whether it holds jobs that always run, now or later.
  bool holds_always() const { return num_always_ > 0; }

  /// The earliest time of the jobs whose time has not come yet.
  std::optional<Time> next_time() const;

  /// Removes and returns all of them.
  std::vector<uint32_t> take_all();

 private:
  const Step& step_of(uint32_t job) const;
  int max_parallel(uint32_t job) const;
  void make_ready(uint32_t job);
  bool has_room(uint32_t job, const std::set<uint32_t>& active) const;

  const Plan& plan_;
  const Backend& backend_;
  ReadyQueue ready_;
  std::multimap<Time, uint32_t> delayed_;
  size_t num_always_ = 0;
};

}  // namespace dlflow
