#include "engine/planner/network.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dlflow::planner {
namespace {

/// "ring" of "hierarchical+ring": how slices travel between nodes.
std::string_view between_nodes(std::string_view way) { return way.substr(way.find('+') + 1); }

/// The algorithm of `ranks`, where another number of ranks took `way`. Two ranks take recursive
/// doubling for all sizes, more ranks up to 32 KiB (runtime/collectives/allreduce_plan.cpp).
std::string_view way_of(std::string_view way, int ranks, double bytes) {
  if (way != "recursive_doubling" || ranks == 2 || bytes <= (32 << 10)) return way;
  return std::has_single_bit(unsigned(ranks)) ? "rabenseifner" : "ring";
}

double seconds_of(AlphaBeta link, AlphaBeta terms) {
  return link.alpha * terms.alpha + link.beta * terms.beta;
}

double distance(std::pair<int, int> a, std::pair<int, int> b) {
  return std::abs(std::log2(double(a.first) / b.first)) +
         std::abs(std::log2(double(a.second) / b.second));
}

}  // namespace

AlphaBeta allreduce_terms(std::string_view algorithm, int ranks, double bytes) {
  if (ranks < 2) return {};
  const double p = ranks, lg = std::ceil(std::log2(p)), halves = 2 * (p - 1) / p * bytes;
  if (algorithm == "ring" || algorithm == "direct") return {2 * (p - 1), halves};
  if (algorithm == "recursive_doubling") return {lg, lg * bytes};
  if (algorithm == "tree") return {2 * lg, 2 * lg * bytes};
  return {2 * lg, halves};
}

Network::Network(const std::vector<NetworkTime>& times, double bandwidth) : bandwidth_(bandwidth) {
  for (const NetworkTime& time : times) {
    auto& sizes = groups_[{time.ranks, time.nodes}];
    const auto [found, is_new] = sizes.emplace(time.bytes, time);
    if (!is_new && time.seconds < found->second.seconds) found->second = time;
    has_level_[time.nodes > 1] = true;
  }
  levels_[0] = fit_level(times, false);
  levels_[1] = fit_level(times, true);  // takes the time within nodes away
}

AlphaBeta Network::fit_level(const std::vector<NetworkTime>& times, bool several_nodes) const {
  std::vector<Sample> samples;
  for (const NetworkTime& time : times) {
    if ((time.nodes > 1) != several_nodes) continue;
    const bool two_levels = several_nodes && has_level_[0];
    const int per_node = two_levels ? time.ranks / time.nodes : 1;
    const AlphaBeta terms = allreduce_terms(
        between_nodes(time.algorithm), two_levels ? time.nodes : time.ranks, time.bytes / per_node);
    const double within = seconds_of(levels_[0], allreduce_terms("ring", per_node, time.bytes));
    samples.push_back(
        {terms.alpha, terms.beta, time.seconds - (within < time.seconds ? within : 0)});
  }
  return fit(samples);
}

/// Ranks of a node that divide a sum between nodes.
int Network::ranks_that_share(Group group) const {
  const auto [ranks, nodes] = group;
  return nodes > 1 && has_level_[0] ? (ranks + nodes - 1) / nodes : 1;
}

/// Returns the terms of the slowest level, where each rank of a node sends a slice.
AlphaBeta Network::terms(std::string_view way, Group group, double bytes) const {
  const int per_node = ranks_that_share(group);
  const int parts = per_node == 1 ? group.first : group.second;
  const double slice = bytes / per_node;
  return allreduce_terms(way_of(way, parts, slice), parts, slice);
}

/// Two levels: reduce-scatter and all-gather in each node, and an all-reduce between nodes.
double Network::cost(std::string_view way, Group group, double bytes, AlphaBeta outer) const {
  return seconds_of(levels_[0], allreduce_terms("ring", ranks_that_share(group), bytes)) +
         seconds_of(outer, terms(way, group, bytes));
}

double Network::further_rounds(int ranks, int nodes, double bytes) const {
  const Group& measured = nearest({ranks, nodes});
  const auto& sizes = groups_.at(measured);
  const auto above = sizes.lower_bound(bytes);
  const auto way =
      between_nodes((above == sizes.end() ? std::prev(above) : above)->second.algorithm);
  return std::max(0.0, terms(way, {ranks, nodes}, bytes).alpha - terms(way, measured, bytes).alpha);
}

const Network::Group& Network::nearest(Group group) const {
  const Group* best = nullptr;
  for (const auto& [other, sizes] : groups_) {
    if ((other.second > 1) != (group.second > 1)) continue;
    if (best == nullptr || distance(group, other) <= distance(group, *best)) best = &other;
  }
  return *best;
}

double Network::allreduce(int ranks, int nodes, double bytes) const {
  if (ranks == 1 || bytes <= 0) return 0;
  const Group group{ranks, nodes}, &measured = nearest(group);
  const auto& sizes = groups_.at(measured);
  auto above = sizes.lower_bound(bytes);
  if (above == sizes.end()) --above;
  const NetworkTime& near = above->second;
  double seconds = near.seconds;
  if (bytes > near.bytes) {
    seconds *= bytes / near.bytes;
  } else if (above != sizes.begin()) {
    const NetworkTime& below = std::prev(above)->second;
    seconds =
        std::lerp(below.seconds, near.seconds, (bytes - below.bytes) / (near.bytes - below.bytes));
  }
  const std::string_view way = between_nodes(near.algorithm);
  const double before = cost(way, measured, bytes, levels_[nodes > 1]);
  return before > 0 ? seconds * cost(way, group, bytes, link(nodes)) / before : seconds;
}

AlphaBeta Network::link(int nodes) const {
  const AlphaBeta level = levels_[nodes > 1];
  return {level.alpha, level.beta / bandwidth_};
}

}  // namespace dlflow::planner
