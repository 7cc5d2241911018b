#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json_fields.h"

namespace dlflow {

/// A node of a job, and the number of the job's ranks there.
struct RankNode {
  std::string name;
  int ranks = 1;
  bool operator==(const RankNode&) const = default;
};

/// The content of attempt-N/ranks-K.json, common to all ranks of pass K.
struct RankPlan {
  int ranks = 1;
  bool told = true;           ///< false: one program, whose rank is only in DLFLOW_*
  bool one_per_node = false;  ///< the launcher starts one program per node, which starts the ranks
  std::vector<RankNode> nodes;  ///< in the order of their ranks; never empty
  std::string master_address = "127.0.0.1";
  int master_port = 0;  ///< free there when the pass began; 0: not announced
  int asks_by = 0;      ///< signal that asks a program to save; 0: signals pass unchanged
  int asked_by = 0;     ///< signal by which rank-exec receives that request
  std::filesystem::path lost_rank;  ///< file for the first rank that a signal ends
  std::set<std::string> given;      ///< variables that the step sets itself
  bool operator==(const RankPlan&) const = default;

  /// The number of programs that the launcher starts.
  int num_programs() const { return one_per_node ? int(nodes.size()) : ranks; }
};

inline void to_json(Json& json, const RankNode& node) { json = {node.name, node.ranks}; }
/// Throws Json::exception.
inline void from_json(const Json& json, RankNode& node) {
  json.at(0).get_to(node.name);
  json.at(1).get_to(node.ranks);
}

DLFLOW_DEFINE_FIELDS(RankPlan, ranks, told, one_per_node, nodes, master_address, master_port,
                     asks_by, asked_by, lost_rank, given)

/// Throws Error{Corrupt}.
inline RankPlan rank_plan_from_json(const Json& json) {
  return from_fields<RankPlan>(json, "plan of ranks");
}

}  // namespace dlflow
