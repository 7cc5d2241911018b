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

/// Jobs that may start, in plan order. A job that finds no room lets later, smaller ones pass. Jobs
/// that ask for the same are looked at once, so that 50,000 of them cost no more than one.
class ReadyQueue {
 public:
  void push(uint32_t job, const Resources& resources);

  /// Removes and returns the first job for whose resources `has_room` is true.
  std::optional<uint32_t> pop(const std::function<bool(const Resources&)>& has_room);

  bool empty() const { return groups_.empty(); }

 private:
  /// Ranks, CPUs, GPUs, memory: what has_room may depend on.
  using Key = std::tuple<int, int, int, uint64_t>;
  using FirstInPlan = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;

  struct Group {
    Resources resources;
    FirstInPlan jobs;  // never empty
  };

  std::map<Key, Group> groups_;
};

}  // namespace dlflow
