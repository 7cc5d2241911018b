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

/// All-reduces on a cluster: as measured, and beyond that by alpha and beta of each level.
class Network {
 public:
  explicit Network(const std::vector<NetworkTime>& times);

  /// Whether something was measured on the level that these ranks use: one node, or several.
  bool knows(int ranks, int nodes) const;

  /// Seconds of an all-reduce. Ranks that were measured: between two sizes by a line. Others: the
  /// time of the nearest group, times the ratio that the formulas give. knows() must hold.
  double allreduce(int ranks, int nodes, double bytes) const;

  /// Alpha and beta of the slowest level that these ranks use, with the bandwidth now assumed.
  AlphaBeta link(int nodes) const;

  /// The same network with that factor of bandwidth on its slowest level.
  Network with_bandwidth(double factor) const;

 private:
  using Group = std::pair<int, int>;  ///< ranks, nodes

  AlphaBeta fit_level(bool several_nodes) const;
  double cost(std::string_view algorithm, Group group, double bytes, double factor) const;
  const Group& nearest(Group group) const;

  std::vector<NetworkTime> times_;
  std::map<Group, std::map<double, NetworkTime>> groups_;  ///< the fastest by size
  bool has_level_[2] = {};                                 ///< one node, several
  AlphaBeta levels_[2];
  double bandwidth_ = 1;
};

}  // namespace dlflow::planner
