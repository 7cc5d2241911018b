#include "engine/planner/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dlflow::planner {
AlphaBeta fit(std::span<const Sample> samples) {
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const Sample& s : samples) {
    const double a = s.a / s.seconds, b = s.b / s.seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    const AlphaBeta both{(a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant};
    if (both.beta < 0) return {a1 / aa, 0};
    if (both.alpha >= 0) return both;
  }
  return {0, bb > 0 ? b1 / bb : 0};
}

double lemma1_ranks(double overhead, double efficiency) {
  if (overhead <= 0) return std::numeric_limits<double>::infinity();
  return ((1 + overhead) / efficiency - 1) / overhead;
}

double lemma2_servers(double parameter_bytes, double workers, double server_bandwidth,
                      double compute_s) {
  return std::max(1.0, std::ceil(2 * parameter_bytes * workers / (server_bandwidth * compute_s)));
}

double step_ratio(double batch, double other, double noise_scale) {
  return (1 + noise_scale / batch) / (1 + noise_scale / other);
}

double all_gather_seconds(AlphaBeta link, int ranks, double message_bytes) {
  return link.alpha * std::log2(ranks) + (ranks - 1) * link.beta * message_bytes;
}

double sparse_crossover(AlphaBeta link, int ranks, double bytes, double dense_s) {
  const double full = all_gather_seconds({0, link.beta}, ranks, 2 * bytes);
  if (full <= 0) return 0;
  return std::clamp((dense_s - link.alpha * std::log2(ranks)) / full, 0.0, 1.0);
}

double pause_seconds(double share, double period_s) {
  const double off = 1 - share;
  return off * period_s * (2 * share * off / 2 + off * off * 2 / 3);
}

std::vector<double> replay(const std::vector<Bucket>& buckets) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
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
