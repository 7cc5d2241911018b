#include "runtime/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace dlflow::runtime {

uint32_t choose_token(std::span<const float> scores, const Sampling& sampling, double uniform) {
  if (sampling.temperature == 0) return uint32_t(std::ranges::max_element(scores) - scores.begin());
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  if (sampling.top_k > 0 && sampling.top_k < order.size()) order.resize(sampling.top_k);
  std::vector<double> weights;
  for (const uint32_t token : order) {
    weights.push_back(
        std::exp((double(scores[token]) - double(scores[order[0]])) / sampling.temperature));
  }
  double all = std::accumulate(weights.begin(), weights.end(), 0.0), sum = 0;
  size_t kept = 0;
  while (kept < weights.size() && (kept == 0 || sum < sampling.top_p * all)) sum += weights[kept++];
  const double chosen = uniform * sum;
  double before = 0;
  for (size_t i = 0; i + 1 < kept; ++i) {
    before += weights[i];
    if (chosen < before) return order[i];
  }
  return order[kept - 1];
}

}  // namespace dlflow::runtime
