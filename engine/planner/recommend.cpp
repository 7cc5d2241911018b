#include "engine/planner/recommend.h"

#include <algorithm>

namespace dlflow::planner {
namespace {

std::vector<double> batches_of(const StepModel& model, int ranks, const Bounds& bounds) {
  std::vector<double> batches = {model.own_batch(ranks)};
  if (bounds.only_own_batch || model.training().per_rank) return batches;
  for (const double factor : {2.0, 4.0}) {
    if (factor * batches.front() <= model.noise_scale())
      batches.push_back(factor * batches.front());
  }
  return batches;
}

std::vector<std::string> compressions_of(const Training& training, int ranks) {
  if (training.exact || ranks == 1) return {training.compression};
  return {training.compression, training.compression == "none" ? "topk" : "none"};
}

Prediction prediction(const StepModel& model, const PlannedLayout& candidate, double batch,
                      const std::string& compression, const Bounds& bounds) {
  const auto [ranks, nodes] = candidate.layout;
  const Training& training = model.training();
  const StepTime time = model.predict(candidate.layout, batch, compression);
  Prediction result;
  result.layout = candidate.layout;
  result.batch = batch;
  result.compression = compression;
  result.step_s = time.step_s;
  result.exposed_s = time.exposed_s;
  const double one =
      model.own_batch(1) / model.predict({1, 1}, model.own_batch(1), training.compression).step_s;
  result.efficiency = batch / time.step_s / ranks / one;
  const double own = model.own_batch(ranks);
  const double steps_of_sample =
      (batch == own ? 1 : step_ratio(batch, own, model.noise_scale())) / own;
  result.relative_time = steps_of_sample * time.step_s;
  if (training.epochs > 0 && training.samples > 0) {
    result.time_s = result.relative_time * training.epochs * training.samples;
    result.core_hours = *result.time_s * ranks * bounds.cpus_per_rank / 3600;
  }
  const double on_node = time.memory_bytes * ((ranks + nodes - 1) / nodes);
  result.fits =
      candidate.fits && (bounds.node_memory_bytes <= 0 || on_node <= bounds.node_memory_bytes);
  return result;
}

/// The best of those that `may` be taken, fewer ranks before more.
template <class May>
std::optional<size_t> best_of(const std::vector<Prediction>& all, const May& may) {
  std::optional<size_t> best;
  const auto is_better = [&](const Prediction& a, const Prediction& b) {
    constexpr double kGain = 0.98;
    if (a.layout.ranks > b.layout.ranks) return a.relative_time < kGain * b.relative_time;
    if (a.layout.ranks < b.layout.ranks) return kGain * a.relative_time <= b.relative_time;
    return a.relative_time < b.relative_time;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (may(i) && (!best || is_better(all[i], all[*best]))) best = i;
  }
  return best;
}

}  // namespace

Advice advise(const StepModel& model, std::span<const PlannedLayout> candidates,
              const Bounds& bounds) {
  Advice advice;
  for (const PlannedLayout& candidate : candidates) {
    const auto [ranks, nodes] = candidate.layout;
    if (!model.network().knows(ranks, nodes)) continue;
    for (const double batch : batches_of(model, ranks, bounds)) {
      for (const std::string& compression : compressions_of(model.training(), ranks)) {
        const bool changes_both =
            batch != model.own_batch(ranks) && compression != model.training().compression;
        if (changes_both) continue;
        advice.predictions.push_back(prediction(model, candidate, batch, compression, bounds));
      }
    }
  }
  const auto& all = advice.predictions;
  const auto may = [&](size_t i) {
    return all[i].fits && all[i].compression == model.training().compression;
  };
  const auto is_efficient = [&](size_t i) {
    return may(i) && all[i].efficiency >= kLeastEfficiency;
  };
  advice.recommended = best_of(all, is_efficient);
  const auto is_left = [&](size_t i) { return i != advice.recommended; };
  advice.runner_up = best_of(all, [&](size_t i) { return is_left(i) && is_efficient(i); });
  if (!advice.runner_up) {
    advice.runner_up = best_of(all, [&](size_t i) { return is_left(i) && may(i); });
  }
  return advice;
}

}  // namespace dlflow::planner
