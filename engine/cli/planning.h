#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"
#include "engine/plan/plan.h"
#include "engine/planner/recommend.h"

/// A step's measurement and the workflow, as the planner takes them.
namespace dlflow {

struct MeasuredStep {
  std::filesystem::path file;
  planner::Measurement measurement;
  planner::Training training;
  planner::Bounds bounds;
  std::vector<planner::Candidate> candidates;
  bool is_of_model = true;  ///< false: of another model, in a file that was named
};

/// Finds the measurement of `step` in the cache of `profile`, or reads `file` if it is not empty.
/// Of a matrix the first element counts. Throws Error{NotFound} that says what to type.
MeasuredStep measured_step(const Workflow& workflow, const Step& step, const Profile& profile,
                           const std::filesystem::path& file = {});

/// Its predictions, where the slowest level of the network has `bandwidth` times what was measured.
planner::Advice advice_for(const MeasuredStep& step, double bandwidth = 1,
                           bool only_own_batch = false);

/// The number of ranks of each step with `ranks: auto`, by its name: the recommendation for its own
/// batch within the limits of `profile`. Throws Error as measured_step(), with the place.
std::map<std::string, int> automatic_ranks(const Workflow& workflow, const Profile& profile);

}  // namespace dlflow
