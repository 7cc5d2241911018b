#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_fields.h"
#include "engine/planner/step_model.h"

namespace dlflow::planner {

struct Prediction {
  int ranks = 1, nodes = 1;
  double batch = 0;
  std::string compression;
  double wire_bytes = 0, coding_s = 0;  ///< of a rank's gradients, as in StepTime
  double step_s = 0, exposed_s = 0;
  double efficiency = 1;                  ///< samples per second and rank, over those of one rank
  double relative_time = 0;               ///< to the target, in steps of one sample
  std::optional<double> time_s = {};      ///< to the target, if epochs and samples are known
  std::optional<double> core_hours = {};  ///< likewise
  std::optional<double> energy_j = {};    ///< likewise, if an earlier run measured energy
  bool fits = true;  ///< within limits and memory, laid out as the profile does
  bool operator==(const Prediction&) const = default;
};
DLFLOW_DEFINE_FIELDS(Prediction, ranks, nodes, batch, compression, wire_bytes, coding_s, step_s,
                     exposed_s, efficiency, time_s, core_hours, energy_j, fits)

struct Bounds {
  int cpus_per_rank = 1;
  double node_memory_bytes = 0;  ///< 0: not known
  bool only_own_batch = false;   ///< for `ranks: auto`, which changes no batch
  double joules_per_core_s = 0;  ///< 0: not known
};

struct Advice {
  std::vector<Prediction> predictions;  ///< in the order of candidates
  std::optional<Prediction> recommended, runner_up;
};

/// Half of what each rank could do is the least that is recommended.
inline constexpr double kLeastEfficiency = 0.5;

/// Predicts each candidate with the batch and compression of the workflow; beyond that with twice
/// and four times the batch up to the noise scale, and a fast training with each measured method of
/// compression, or with top-k. Recommended is the shortest time to the target, S(B) T_step(P, B),
/// among those that fit, compress as the workflow does, and are kLeastEfficiency efficient; fewer
/// ranks where the gain is below 2 %. The additional steps that compression costs are not measured,
/// so it is not recommended.
Advice advise(const StepModel& model, std::span<const Layout> candidates, const Bounds& bounds);

}  // namespace dlflow::planner
