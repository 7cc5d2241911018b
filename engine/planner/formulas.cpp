#include "engine/planner/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dlflow::planner {
namespace {

double relative_error(std::span<const Sample> samples, AlphaBeta costs) {
  double sum = 0;
  for (const Sample& s : samples) {
    const double error = (costs.alpha * s.a + costs.beta * s.b) / s.seconds - 1;
    sum += error * error;
  }
  return sum;
}

}  // namespace

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
    if (both.alpha >= 0 && both.beta >= 0) return both;
  }
  const AlphaBeta first{aa > 0 ? a1 / aa : 0, 0}, second{0, bb > 0 ? b1 / bb : 0};
  return relative_error(samples, first) < relative_error(samples, second) ? first : second;
}

double lemma1_efficiency(double overhead, double ranks) {
  return (1 + overhead) / (1 + ranks * overhead);
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

double sparse_seconds(AlphaBeta link, int ranks, double bytes, double density) {
  return link.alpha * std::log2(ranks) + 2 * (ranks - 1) * density * bytes * link.beta;
}

double sparse_crossover(AlphaBeta link, int ranks, double bytes, double dense_s) {
  const double full = sparse_seconds({0, link.beta}, ranks, bytes, 1);
  if (full <= 0) return 0;
  return std::clamp((dense_s - link.alpha * std::log2(ranks)) / full, 0.0, 1.0);
}

}  // namespace dlflow::planner
