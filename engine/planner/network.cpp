#include "engine/planner/network.h"

#include <cmath>

namespace dlflow::planner {
namespace {

/// "ring" of "hierarchical+ring": how the slices travel between nodes.
std::string_view between_nodes(std::string_view way) {
  const size_t plus = way.find('+');
  return plus == way.npos ? way : way.substr(plus + 1);
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

Network::Network(const std::vector<NetworkTime>& times) : times_(times) {
  for (const NetworkTime& time : times_) {
    auto& sizes = groups_[{time.ranks, time.nodes}];
    const auto [found, is_new] = sizes.emplace(time.bytes, time);
    if (!is_new && time.seconds < found->second.seconds) found->second = time;
    has_level_[time.nodes > 1] = true;
  }
  levels_[0] = fit_level(false);
  levels_[1] = fit_level(true);  // which takes the time within nodes away
}

AlphaBeta Network::fit_level(bool several_nodes) const {
  std::vector<Sample> samples;
  for (const NetworkTime& time : times_) {
    if ((time.nodes > 1) != several_nodes) continue;
    const int per_node = has_level_[0] ? time.ranks / time.nodes : 1;
    const int ranks = several_nodes && has_level_[0] ? time.nodes : time.ranks;
    const AlphaBeta terms = allreduce_terms(between_nodes(time.algorithm), ranks,
                                            time.bytes / (several_nodes ? per_node : 1));
    double seconds = time.seconds;
    if (several_nodes && per_node > 1) {
      const double within = seconds_of(levels_[0], allreduce_terms("ring", per_node, time.bytes));
      if (within < seconds) seconds -= within;
    }
    samples.push_back({terms.alpha, terms.beta, seconds});
  }
  return fit(samples);
}

bool Network::knows(int ranks, int nodes) const { return ranks == 1 || has_level_[nodes > 1]; }

/// Two levels: reduce-scatter and all-gather in each node, between them an all-reduce of a slice
/// for each rank of a node.
double Network::cost(std::string_view algorithm, Group group, double bytes, double factor) const {
  const auto [ranks, nodes] = group;
  AlphaBeta outer = levels_[nodes > 1];
  outer.beta /= factor;
  const int per_node = (ranks + nodes - 1) / nodes;
  const std::string_view way = between_nodes(algorithm);
  if (nodes == 1 || per_node == 1 || !has_level_[0]) {
    return seconds_of(outer, allreduce_terms(way, ranks, bytes));
  }
  return seconds_of(levels_[0], allreduce_terms("ring", per_node, bytes)) +
         seconds_of(outer, allreduce_terms(way, nodes, bytes / per_node));
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
  if (above == std::prev(sizes.end()) && bytes > near.bytes) {
    seconds *= bytes / near.bytes;
  } else if (above != sizes.begin()) {
    const NetworkTime& below = std::prev(above)->second;
    seconds = below.seconds +
              (near.seconds - below.seconds) * (bytes - below.bytes) / (near.bytes - below.bytes);
  }
  const double before = cost(near.algorithm, measured, bytes, 1);
  return before > 0 ? seconds * cost(near.algorithm, group, bytes, bandwidth_) / before : seconds;
}

AlphaBeta Network::link(int nodes) const {
  AlphaBeta link = levels_[nodes > 1];
  link.beta /= bandwidth_;
  return link;
}

Network Network::with_bandwidth(double factor) const {
  Network other = *this;
  other.bandwidth_ = bandwidth_ * factor;
  return other;
}

}  // namespace dlflow::planner
