#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// The jobs that the batch system has kept, and that wait in it for jobs that will never succeed:
/// they are pointed to the jobs that are submitted anew (P4).
class ChainRepair {
 public:
  /// `run` must outlive it.
  explicit ChainRepair(ChainRun& run) : run_(run) {}

  void add(uint32_t job) { stuck_.insert(job); }
  bool contains(uint32_t job) const { return stuck_.contains(job); }

  /// Takes a job that has not begun from the batch system, and plans it again. Either its
  /// submission names an old state or place of a parent's result, or it has a checkpoint made with
  /// the parents' old results. Returns false if it shares its task with others, and the task has
  /// begun meanwhile: then it stays.
  bool replace(uint32_t job);

  /// Forgets blocked jobs: the jobs that they wait for stay as they are.
  void drop_blocked();

  /// Points the jobs to the present jobs of their parents, with one request for tasks of an array
  /// that wait for the same. The record comes first: a record that knows less than the batch system
  /// is repaired by the next call. Jobs whose parents are yet to be submitted stay. Jobs that the
  /// batch system has dropped meanwhile are Planned again; returns false if there is one. \param
  /// repointed  gets "NAME ID" of each.
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
