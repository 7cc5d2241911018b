#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "engine/model/workflow.h"

namespace dlflow {

/// Jobs that may start, in plan order. A job that finds no room lets later ones of other kinds
/// pass. Jobs of one kind are looked at once, so that 50,000 of them cost no more than one.
class ReadyQueue {
 public:
  /// \param lane  jobs of different lanes are of different kinds, whatever they ask for.
  void push(uint32_t job, const Resources& resources, uint32_t lane = 0);

  /// Removes and returns the first job for which `has_room` is true: an answer that must be the
  /// same for jobs that ask for the same and are in the same lane.
  std::optional<uint32_t> pop(const std::function<bool(uint32_t job)>& has_room);

  bool empty() const { return kinds_.empty(); }

 private:
  /// Ranks, CPUs, GPUs, memory, lane: what has_room may depend on.
  using Kind = std::tuple<int, int, int, uint64_t, uint32_t>;
  using FirstInPlan = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;

  std::map<Kind, FirstInPlan> kinds_;  // none empty
};

}  // namespace dlflow
