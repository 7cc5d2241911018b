#include "runtime/collectives/tune.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/timing.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kSmallestBytes = 64;

struct Way {
  Algorithm algorithm;
  std::optional<Algorithm> between_nodes;  // for Hierarchical

  bool operator==(const Way&) const = default;

  std::string text() const {
    const std::string all(name(algorithm));
    return between_nodes ? all + "+" + std::string(name(*between_nodes)) : all;
  }
  RuleSet always() const {
    RuleSet rules{{{algorithm, 0, SIZE_MAX}}, {}};
    if (between_nodes) rules.between_nodes = {{*between_nodes, 0, SIZE_MAX}};
    return rules;
  }
};

/// The distinct ways that these ranks support: others would be replaced by one of these.
std::vector<Way> ways_of(Communicator& comm) {
  std::vector<Way> ways;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const Algorithm between : kAlgorithms) {
      Way way{algorithm, std::nullopt};
      if (algorithm == Algorithm::Hierarchical) way.between_nodes = between;
      const AllreducePlan plan(comm, {.rules = way.always()});
      const bool fits =
          plan.over_all(0) == algorithm && (!way.between_nodes || plan.between_nodes(0) == between);
      if (fits && std::ranges::find(ways, way) == ways.end()) ways.push_back(way);
    }
  }
  return ways;
}

/// The lower quartile.
double time_of(const Contender& contender) { return contender.quantile(0.25); }

/// The measurements of the ways for which `algorithm_of` returns an algorithm.
template <typename AlgorithmOf>
std::vector<MeasuredWay> measured_ways(const std::vector<Way>& ways,
                                       std::span<const Contender> contenders,
                                       AlgorithmOf algorithm_of) {
  std::vector<MeasuredWay> measured;
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::optional<Algorithm> algorithm = std::invoke(algorithm_of, ways[i]);
    if (!algorithm) continue;
    measured.push_back({*algorithm, time_of(contenders[i]), contenders[i].median()});
  }
  return measured;
}

constexpr double kNoise = 0.95;

bool faster(const MeasuredWay& a, const MeasuredWay& b) {
  return a.lower_quartile < b.lower_quartile;
}

}  // namespace

RuleSet tune(Communicator& comm, size_t largest_bytes, double seconds_each,
             const std::function<void(const TuneLine&)>& measured) {
  if (largest_bytes < kSmallestBytes) {
    throw Error(Errc::InvalidInput, "nothing is measured up to " + std::to_string(largest_bytes) +
                                        " B: the smallest sum is of " +
                                        std::to_string(kSmallestBytes) + " B");
  }
  const std::vector<Way> ways = ways_of(comm);
  Allreduce allreduce(comm, largest_bytes / sizeof(float));
  FastestWays all, between_nodes(size_t(topology_of(comm).smallest_node()));
  for (size_t bytes = kSmallestBytes; bytes <= largest_bytes; bytes *= 4) {
    const size_t count = bytes / sizeof(float);
    std::vector<Contender> contenders;
    for (const Way& way : ways) {
      contenders.push_back({way.text(), allreduce.values().first(count), [&allreduce, count, way] {
                              allreduce.follow(way.always());
                              allreduce.start(0, count);
                              allreduce.finish();
                            }});
    }
    take_turns(comm, contenders, seconds_each);
    const auto between = measured_ways(ways, contenders, &Way::between_nodes);
    if (!between.empty()) between_nodes.add(bytes, between);
    TuneLine line{bytes, {}, all.add(bytes, measured_ways(ways, contenders, &Way::algorithm))};
    for (const Contender& c : contenders) line.times.push_back({c.name, time_of(c)});
    measured(line);
  }
  return {all.rules(), between_nodes.rules()};
}

size_t FastestWays::add(size_t bytes, std::span<const MeasuredWay> ways) {
  DLFLOW_CHECK(!ways.empty());
  auto winner = std::ranges::min_element(ways, faster);
  if (rules_.empty()) {
    rules_.push_back({winner->algorithm, 0, SIZE_MAX});
  } else {
    auto before = ways.end();  // the fastest way with the last size's algorithm
    for (auto way = ways.begin(); way != ways.end(); ++way) {
      if (way->algorithm != rules_.back().algorithm) continue;
      if (before == ways.end() || faster(*way, *before)) before = way;
    }
    if (before != ways.end() && winner->median > kNoise * before->median) winner = before;
    if (winner->algorithm != rules_.back().algorithm) {
      rules_.back().last_bytes = last_bytes_;
      rules_.push_back({winner->algorithm, last_bytes_, SIZE_MAX});
    }
  }
  last_bytes_ = bytes / slices_;
  return size_t(winner - ways.begin());
}

}  // namespace dlflow::runtime
