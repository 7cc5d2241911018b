#include "engine/planner/recommend.h"

namespace dlflow::planner {
namespace {

std::vector<double> batches_of(const StepModel& model, int ranks, const Bounds& bounds) {
  const double own = model.own_batch(ranks);
  std::vector<double> batches = {own};
  if (bounds.only_own_batch || model.training().per_rank) return batches;
  for (const double batch : {2 * own, 4 * own}) {
    if (batch <= model.noise_scale()) batches.push_back(batch);
  }
  return batches;
}

/// The workflow's own first.
std::vector<std::string> compressions_of(const StepModel& model, int ranks) {
  const std::string own = model.training().compression;
  std::vector<std::string> all = {own};
  if (model.training().exact || ranks == 1) return all;
  if (own != "none") all.emplace_back("none");
  for (const CompressorCost& cost : model.measurement().compressors) {
    if (cost.method != own) all.push_back(cost.method);
  }
  if (all.size() == 1) all.emplace_back("topk");
  return all;
}

Prediction prediction(const StepModel& model, const Layout& layout, double batch,
                      const std::string& compression, const Bounds& bounds) {
  const Training& training = model.training();
  const StepTime time = model.predict(layout, batch, compression);
  const double one =
      model.own_batch(1) / model.predict({1, 1}, model.own_batch(1), training.compression).step_s;
  const double own = model.own_batch(layout.ranks);
  const double steps_of_sample =
      (batch == own ? 1 : step_ratio(batch, own, model.noise_scale())) / own;
  Prediction result = {.ranks = layout.ranks,
                       .nodes = layout.nodes,
                       .batch = batch,
                       .compression = compression,
                       .wire_bytes = time.wire_bytes,
                       .coding_s = time.coding_s,
                       .step_s = time.step_s,
                       .exposed_s = time.exposed_s,
                       .efficiency = batch / time.step_s / layout.ranks / one,
                       .relative_time = steps_of_sample * time.step_s};
  if (training.epochs > 0 && training.samples > 0) {
    result.time_s = result.relative_time * training.epochs * training.samples;
    const double core_s = *result.time_s * layout.ranks * bounds.cpus_per_rank;
    result.core_hours = core_s / 3600;
    if (bounds.joules_per_core_s > 0) result.energy_j = core_s * bounds.joules_per_core_s;
  }
  const int ranks_on_node = (layout.ranks + layout.nodes - 1) / layout.nodes;
  result.fits = layout.fits && (bounds.node_memory_bytes <= 0 ||
                                time.memory_bytes * ranks_on_node <= bounds.node_memory_bytes);
  return result;
}

/// The best of those that `may` be taken, fewer ranks before more.
template <class May>
std::optional<Prediction> best_of(const std::vector<Prediction>& all, const May& may) {
  constexpr double kGain = 0.98;
  std::optional<Prediction> best;
  const auto is_better = [&](const Prediction& a, const Prediction& b) {
    if (a.ranks > b.ranks) return a.relative_time < kGain * b.relative_time;
    if (a.ranks < b.ranks) return kGain * a.relative_time <= b.relative_time;
    return a.relative_time < b.relative_time;
  };
  for (const Prediction& one : all) {
    if (may(one) && (!best || is_better(one, *best))) best = one;
  }
  return best;
}

}  // namespace

Advice advise(const StepModel& model, std::span<const Layout> candidates, const Bounds& bounds) {
  Advice advice;
  const std::string own = model.training().compression;
  for (const Layout& layout : candidates) {
    if (!model.network().knows(layout.ranks, layout.nodes)) continue;
    for (const double batch : batches_of(model, layout.ranks, bounds)) {
      for (const std::string& compression : compressions_of(model, layout.ranks)) {
        if (batch != model.own_batch(layout.ranks) && compression != own) continue;
        advice.predictions.push_back(prediction(model, layout, batch, compression, bounds));
      }
    }
  }
  const auto best = [&](double least_efficiency) {
    return best_of(advice.predictions, [&](const Prediction& p) {
      const bool is_taken = advice.recommended && p == *advice.recommended;
      return p.fits && p.compression == own && p.efficiency >= least_efficiency && !is_taken;
    });
  };
  advice.recommended = best(kLeastEfficiency);
  advice.runner_up = best(kLeastEfficiency);
  if (!advice.runner_up) advice.runner_up = best(0);
  return advice;
}

}  // namespace dlflow::planner
