#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"
#include "engine/planner/recommend.h"

/// A step's measurement and the workflow, as the planner takes them.
namespace dlflow {

struct MeasuredStep {
  std::filesystem::path file;
  planner::Measurement measurement;
  planner::Training training;
  planner::Bounds bounds;
  std::vector<planner::Layout> candidates;
  std::string aim;          ///< "accuracy 0.9", the target of stop_early; empty without one
  bool is_of_model = true;  ///< false: of another model, in a file that was named
};

/// Whether the step is of a kind that trains networks.
bool is_training(const Step& step);

/// Finds the measurement of `step` in the cache of `profile`, or reads `file` if it is not empty.
/// Takes the first element of a matrix. Throws Error{NotFound} with the command to type.
MeasuredStep measured_step(const Workflow& workflow, const Step& step, const Profile& profile,
                           const std::filesystem::path& file = {});

/// Predictions for its candidates, on a network whose slowest level has `bandwidth` times the
/// measured one.
planner::Advice advice_for(const MeasuredStep& step, double bandwidth = 1);

/// The number of ranks of each step with `ranks: auto`, by its name: the recommendation for its own
/// batch within the limits of `profile`. Steps that `until` does not need have none. Throws Error
/// like measured_step(), with the place.
std::map<std::string, int> automatic_ranks(const Workflow& workflow, const Profile& profile,
                                           const std::string& until = "");

/// "note: step 'train' takes 4 ranks, …" for each of them.
std::string automatic_lines(const std::map<std::string, int>& ranks);

/// The prediction of each step for the ranks that it takes, by name, for trainings that were
/// measured and have no matrix. \param automatic  automatic_ranks()
Json predictions_of(const Workflow& workflow, const Profile& profile,
                    const std::map<std::string, int>& automatic);

}  // namespace dlflow
