#include "engine/planner/replay.h"

#include <algorithm>
#include <limits>

namespace dlflow::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// e_i = max(r_i, e_(i-1)) + c_i
std::vector<double> in_turn(const std::vector<Bucket>& buckets) {
  std::vector<double> ends;
  double end = 0;
  for (const Bucket& bucket : buckets) {
    end = std::max(bucket.ready_s, end) + bucket.seconds;
    ends.push_back(end);
  }
  return ends;
}

}  // namespace

std::vector<double> replay(const std::vector<Bucket>& buckets, SendOrder order) {
  if (order == SendOrder::Fifo) return in_turn(buckets);
  std::vector<double> ends(buckets.size(), kNever), left;
  for (const Bucket& bucket : buckets) left.push_back(bucket.seconds);
  double now = 0;
  for (size_t done = 0; done < buckets.size();) {
    size_t next = buckets.size();
    double change = kNever;  // when another becomes ready
    for (size_t i = 0; i < buckets.size(); ++i) {
      if (ends[i] < kNever) continue;
      if (buckets[i].ready_s > now) {
        change = std::min(change, buckets[i].ready_s);
      } else if (next == buckets.size() || buckets[i].urgency < buckets[next].urgency) {
        next = i;
      }
    }
    if (next == buckets.size() || now + left[next] > change) {
      if (next < buckets.size()) left[next] -= change - now;
      now = change;
      continue;
    }
    now += left[next];
    ends[next] = now;
    ++done;
  }
  return ends;
}

double chain_end(double start_s, const std::vector<double>& layer_s,
                 const std::vector<double>& free_s) {
  double now = start_s;
  for (size_t l = 0; l < layer_s.size(); ++l) now = std::max(now, free_s[l]) + layer_s[l];
  return now;
}

}  // namespace dlflow::planner
