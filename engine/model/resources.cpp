#include "engine/model/resources.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/workflow_shape.h"

namespace dlflow {
namespace {

constexpr std::array kMemoryKeys = {"memory", "memory_per_rank", "memory_per_gpu"};

/// The number under a key; nothing if it is missing or not known yet.
std::optional<int> number_at(const Json& resources, const char* key) {
  const auto found = resources.find(key);
  if (found == resources.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

/// More than any cluster has, and small enough that sums cannot overflow.
constexpr int64_t kMostRanks = 1 << 24;

int ceil_of(int64_t a, int64_t b) { return int((a + b - 1) / b); }

std::string contradiction_of_nodes(const Json& resources) {
  const auto nodes = number_at(resources, "nodes");
  const auto ranks = number_at(resources, "ranks");
  const auto per_node = number_at(resources, "ranks_per_node");
  const int64_t product = int64_t(nodes.value_or(1)) * per_node.value_or(1);
  if (std::max<int64_t>(product, ranks.value_or(1)) > kMostRanks) {
    return "they ask for more than " + format_count(uint64_t(kMostRanks)) +
           " ranks; ask for fewer with nodes, ranks_per_node or ranks";
  }
  if (!nodes || !ranks) return "";
  const std::string given =
      "nodes: " + std::to_string(*nodes) + " and ranks: " + std::to_string(*ranks);
  if (*ranks < *nodes) {
    return given + " leave nodes without a rank; ask for fewer nodes, or leave out one of the two";
  }
  if (!per_node || ceil_of(*ranks, *per_node) == *nodes) return "";
  return given + " are " + std::to_string(ceil_of(*ranks, *nodes)) +
         " ranks on a node, not ranks_per_node: " + std::to_string(*per_node) +
         "; leave out one of the three";
}

/// Derives the ranks from the keys `nodes`, `ranks` and `ranks_per_node`.
void work_out_ranks(const Json& given, Resources& resources) {
  const auto nodes = number_at(given, "nodes");
  const auto ranks = number_at(given, "ranks");
  resources.alone = !nodes && !ranks && !given.contains("ranks_per_node");
  resources.ranks_per_node = number_at(given, "ranks_per_node").value_or(0);
  if (!nodes) {
    resources.ranks = ranks.value_or(1);
    return;
  }
  resources.ranks = ranks.value_or(*nodes * std::max(1, resources.ranks_per_node));
  if (resources.ranks_per_node == 0) resources.ranks_per_node = ceil_of(resources.ranks, *nodes);
}

void work_out_memory(const Json& given, Resources& resources) {
  const uint64_t ranks = uint64_t(resources.ranks);
  const std::array<uint64_t, 3> times = {1, ranks, ranks * uint64_t(resources.gpus_per_rank)};
  for (size_t i = 0; i < kMemoryKeys.size(); ++i) {
    const auto found = given.find(kMemoryKeys[i]);
    if (found == given.end()) continue;
    const uint64_t bytes = found->is_string() ? parse_size(found->get_ref<const std::string&>())
                                              : found->get<uint64_t>();
    resources.memory_bytes = bytes * times[i];
  }
}

/// The step's own value, otherwise the profile's; 0: the batch system decides.
int ranks_on_each_node(const Resources& resources, const Profile& profile) {
  return resources.ranks_per_node > 0 ? resources.ranks_per_node : profile.ranks_per_node;
}

}  // namespace

std::string contradiction_in(const Json& resources) {
  std::string first;
  for (const char* const key : kMemoryKeys) {
    if (!resources.contains(key)) continue;
    if (!first.empty()) return first + " and " + key + " cannot be used together; remove one";
    first = key;
  }
  if (resources.contains("memory_per_gpu") && number_at(resources, "gpus_per_rank") == 0) {
    return "memory_per_gpu needs gpus_per_rank, which is 0; write memory or memory_per_rank";
  }
  return contradiction_of_nodes(resources);
}

Resources resources_from_json(const Json& resources) {
  Mistakes mistakes({}, {});
  const Names data;
  Checker checker(mistakes, data);
  const auto checked =
      checker.check(*to_yaml(resources, {}), resources_shape(), Scope::Nothing, {"resources", ""});
  if (!checked) throw Error(Errc::InvalidInput, mistakes.take().front().message);
  if (checked->value("ranks", Json()) == kAutomaticRanks) {
    throw Error(Errc::InvalidInput, "resources.ranks: auto has no number yet; write one");
  }
  if (const std::string problem = contradiction_in(*checked); !problem.empty()) {
    throw Error(Errc::InvalidInput, "resources: " + problem);
  }
  Resources result;
  result.cpus_per_rank = checked->at("cpus_per_rank");
  result.gpus_per_rank = checked->at("gpus_per_rank");
  work_out_ranks(*checked, result);
  work_out_memory(*checked, result);
  if (const auto walltime = checked->find("walltime"); walltime != checked->end()) {
    result.walltime = parse_duration(walltime->get_ref<const std::string&>());
  }
  result.exclusive = checked->value("exclusive", false);
  if (const auto licences = checked->find("licences"); licences != checked->end()) {
    result.licences = licences->get<std::map<std::string, int>>();
  }
  return result;
}

Json to_json(const Resources& resources) {
  Json json = {{"cpus_per_rank", resources.cpus_per_rank},
               {"gpus_per_rank", resources.gpus_per_rank}};
  if (!resources.alone) json["ranks"] = resources.ranks;
  if (resources.memory_bytes > 0) json["memory"] = resources.memory_bytes;
  if (resources.walltime.count() > 0) {
    json["walltime"] = std::to_string(resources.walltime.count()) + "s";
  }
  if (resources.ranks_per_node > 0) json["ranks_per_node"] = resources.ranks_per_node;
  if (resources.exclusive) json["exclusive"] = true;
  if (!resources.licences.empty()) json["licences"] = resources.licences;
  return json;
}

int num_nodes(const Resources& resources, const Profile& profile) {
  if (resources.ranks == 1) return 1;
  const int per_node = ranks_on_each_node(resources, profile);
  return per_node == 0 ? 0 : ceil_of(resources.ranks, per_node);
}

int max_ranks_on_node(const Resources& resources, const Profile& profile) {
  const int per_node = ranks_on_each_node(resources, profile);
  return per_node == 0 ? resources.ranks : std::min(resources.ranks, per_node);
}

int ranks_together(const Resources& resources, const Profile& profile) {
  return num_nodes(resources, profile) > 0 ? max_ranks_on_node(resources, profile) : 1;
}

}  // namespace dlflow
