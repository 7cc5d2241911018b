#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/planner/step_model.h"

namespace dlflow::planner {

struct Prediction {
  Layout layout;
  double batch = 0;
  std::string compression;
  double step_s = 0, exposed_s = 0;
  double efficiency = 1;             ///< samples per second and rank, over those of one rank
  double relative_time = 0;          ///< to the target, in steps of one sample
  std::optional<double> time_s;      ///< to the target, if epochs and samples are known
  std::optional<double> core_hours;  ///< likewise
  bool fits = true;                  ///< within limits and memory, laid out as the profile does
};

/// A layout to predict, and whether the profile allows it.
struct PlannedLayout {
  Layout layout;
  bool fits = true;
};

struct Bounds {
  int cpus_per_rank = 1;
  double node_memory_bytes = 0;  ///< 0: not known
  bool only_own_batch = false;   ///< for `ranks: auto`, which changes no batch
};

struct Advice {
  std::vector<Prediction> predictions;  ///< in the order of candidates
  std::optional<size_t> recommended, runner_up;
};

/// Half of what each rank could do is the least that is recommended.
inline constexpr double kLeastEfficiency = 0.5;

/// Predicts each candidate with the batch and compression of the workflow; beyond that with twice
/// and four times the batch up to the noise scale, and a fast training without compression also
/// with top-k. Recommended is the shortest time to the target, S(B) T_step(P, B), among those that
/// fit, compress as the workflow does, and are kLeastEfficiency efficient; fewer ranks where the
/// gain is below 2 %. What compression costs in steps is not measured, so it is not recommended.
Advice advise(const StepModel& model, std::span<const PlannedLayout> candidates,
              const Bounds& bounds);

}  // namespace dlflow::planner
