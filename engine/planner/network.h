#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/planner/formulas.h"
#include "engine/planner/measurement.h"

namespace dlflow::planner {

/// Messages and bytes that an all-reduce of `bytes` over P ranks costs: ring 2(P-1) and 2(P-1)/P n;
/// halving and doubling 2 lg P and the same; recursive doubling lg P and lg P n; tree 2 lg P and
/// 2 lg P n. The addition of a byte is part of beta. Thakur, Rabenseifner and Gropp, Int. J. High
/// Perf. Comp. Appl. 19 (2005), 49-66.
AlphaBeta allreduce_terms(std::string_view algorithm, int ranks, double bytes);

/// All-reduces on a cluster: measured times, and beyond them alpha and beta of each level.
class Network {
 public:
  /// \param bandwidth  of the slowest level, over the one that was measured
  explicit Network(const std::vector<NetworkTime>& times, double bandwidth = 1);

  /// Whether the level that these ranks use was measured: one node, or several.
  bool knows(int ranks, int nodes) const { return ranks == 1 || has_level_[nodes > 1]; }

  /// Seconds of an all-reduce. Ranks that were measured: by a line between two sizes. Others: the
  /// time of the nearest group, times the ratio that the formulas give for the algorithm that each
  /// group takes. knows() must hold.
  double allreduce(int ranks, int nodes, double bytes) const;

  /// The messages of an all-reduce that follow each other, beyond those of the nearest group.
  double further_rounds(int ranks, int nodes, double bytes) const;

  /// Alpha and beta of the slowest level that these ranks use.
  AlphaBeta link(int nodes) const;

 private:
  using Group = std::pair<int, int>;  ///< ranks, nodes

  AlphaBeta fit_level(const std::vector<NetworkTime>& times, bool several_nodes) const;
  AlphaBeta terms(std::string_view way, Group group, double bytes) const;
  double cost(std::string_view way, Group group, double bytes, AlphaBeta outer) const;
  int ranks_that_share(Group group) const;
  const Group& nearest(Group group) const;

  std::map<Group, std::map<double, NetworkTime>> groups_;  ///< the fastest by size
  bool has_level_[2] = {};                                 ///< one node, several
  AlphaBeta levels_[2];
  double bandwidth_;
};

}  // namespace dlflow::planner
