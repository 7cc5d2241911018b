#include "runtime/collectives/tune.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/timing.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kSmallestBytes = 64;
constexpr double kNoise = 0.95;

struct Way {
  Algorithm algorithm;
  std::optional<Algorithm> between_nodes;  // of Hierarchical

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

/// What is left of all algorithms once those that do not fit are replaced.
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

/// The lower quartile: what else runs on a node disturbs a part of all calls.
double time_of(const Contender& contender) { return contender.quantile(0.25); }

/// Rules from the fastest way of each size, smallest first.
class Winners {
 public:
  /// Of all ranks, or `between_nodes`: then of bytes / divisor.
  Winners(size_t divisor, bool between_nodes) : divisor_(divisor), between_(between_nodes) {}

  /// The index of the winner.
  size_t add(const std::vector<Way>& ways, std::span<const Contender> contenders, size_t bytes) {
    size_t fastest = ways.size(), last = ways.size();
    for (size_t i = 0; i < ways.size(); ++i) {
      if (between_ && !ways[i].between_nodes) continue;
      const auto faster = [&](size_t j) {
        return j == ways.size() || time_of(contenders[i]) < time_of(contenders[j]);
      };
      if (faster(fastest)) fastest = i;
      if (!rules_.empty() && of(ways[i]) == rules_.back().algorithm && faster(last)) last = i;
    }
    if (fastest == ways.size()) return fastest;
    const bool keep =
        last != ways.size() && contenders[fastest].median() > kNoise * contenders[last].median();
    const size_t winner = keep ? last : fastest;
    if (rules_.empty()) {
      rules_.push_back({of(ways[winner]), 0, SIZE_MAX});
    } else if (of(ways[winner]) != rules_.back().algorithm) {
      rules_.back().last_bytes = last_bytes_ / divisor_;
      rules_.push_back({of(ways[winner]), last_bytes_ / divisor_, SIZE_MAX});
    }
    last_bytes_ = bytes;
    return winner;
  }

  const Rules& rules() const { return rules_; }

 private:
  Algorithm of(const Way& way) const { return between_ ? *way.between_nodes : way.algorithm; }

  size_t divisor_;
  bool between_;
  Rules rules_;
  size_t last_bytes_ = 0;
};

}  // namespace

RuleSet tune(Communicator& comm, size_t largest_bytes, double seconds_each,
             const std::function<void(const TuneLine&)>& measured) {
  const std::vector<Way> ways = ways_of(comm);
  Allreduce allreduce(comm, largest_bytes / sizeof(float));
  Winners all(1, false);
  Winners between(size_t(topology_of(comm).smallest_node()), true);
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
    between.add(ways, contenders, bytes);
    TuneLine line{bytes, {}, all.add(ways, contenders, bytes)};
    for (const Contender& c : contenders) line.times.push_back({c.name, time_of(c)});
    measured(line);
  }
  return {all.rules(), between.rules()};
}

}  // namespace dlflow::runtime
