#include "engine/model/node_layout.h"

#include <algorithm>

namespace dlflow {
namespace {

/// The step's own value, otherwise the profile's; 0: the batch system decides.
int ranks_per_node(const Resources& resources, const Profile& profile) {
  return resources.ranks_per_node > 0 ? resources.ranks_per_node : profile.ranks_per_node;
}

}  // namespace

int num_nodes(const Resources& resources, const Profile& profile) {
  if (resources.ranks == 1) return 1;
  const int per_node = ranks_per_node(resources, profile);
  if (per_node == 0) return 0;
  return (resources.ranks + per_node - 1) / per_node;
}

int max_ranks_on_node(const Resources& resources, const Profile& profile) {
  const int per_node = ranks_per_node(resources, profile);
  return per_node == 0 ? resources.ranks : std::min(resources.ranks, per_node);
}

int ranks_together(const Resources& resources, const Profile& profile) {
  return num_nodes(resources, profile) > 0 ? max_ranks_on_node(resources, profile) : 1;
}

}  // namespace dlflow
