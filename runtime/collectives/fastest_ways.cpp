#include "runtime/collectives/fastest_ways.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr double kNoise = 0.95;

bool faster(const MeasuredWay& a, const MeasuredWay& b) {
  return a.lower_quartile < b.lower_quartile;
}

}  // namespace

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
