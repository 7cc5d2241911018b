#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// The jobs that the batch system has kept, and that wait in it for what will not succeed any more:
/// they are pointed to what is submitted anew (P4).
class ChainRepair {
 public:
  /// `run` must outlive it.
  explicit ChainRepair(ChainRun& run) : run_(run) {}

  void add(uint32_t job) { stuck_.insert(job); }
  bool contains(uint32_t job) const { return stuck_.contains(job); }

  /// Takes a job that has not begun from the batch system, and plans it again: what was submitted
  /// says of a parent that it left nothing, or where its result lies, and that is no longer so; or
  /// it has a checkpoint, which it made with what its parents had left before. False if it shares
  /// its task with others, and that has begun meanwhile: then it stays.
  bool replace(uint32_t job);

  /// Forgets those that are blocked: what they wait for stays as it is.
  void drop_blocked();

  /// Points them to what their parents are now; one request for tasks of an array that wait for the
  /// same. The record comes first: one that says less than the batch system knows is repaired by
  /// the next call. Those whose parents are yet to be submitted stay. What the batch system has
  /// dropped meanwhile is Planned again; false if there is such a one. \param repointed  gets "NAME
  /// ID" of each.
  bool repoint(std::vector<std::string>& repointed);

 private:
  using Dependencies = std::vector<Dependency>;

  std::optional<Dependencies> new_dependencies(uint32_t job) const;
  std::optional<Dependencies> new_dependencies(const std::vector<uint32_t>& sharers) const;
  std::vector<uint32_t> waiting_sharers(uint32_t job) const;
  bool repoint_together(const std::vector<uint32_t>& jobs, const Dependencies& dependencies);
  void plan_anew(uint32_t job, const std::string& reason);
  bool repoint_one(uint32_t job, const Dependencies& dependencies);

  ChainRun& run_;
  std::set<uint32_t> stuck_;
};

}  // namespace dlflow
