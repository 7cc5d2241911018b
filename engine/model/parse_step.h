#pragma once

#include <string>
#include <vector>

#include "engine/model/check.h"
#include "engine/model/parse_matrix.h"

/// The steps of a workflow file.
namespace dlflow {

/// A step that another must wait for, and the place in the file that requires it.
struct Need {
  std::string step;
  Location location;
};

struct ParsedStep {
  Step step;                          ///< without `needs`
  std::vector<Need> needs;            ///< as given by `needs:`
  std::vector<Reference> references;  ///< to other steps' outputs, metrics and axes
  bool matrix_is_wrong = false;       ///< if true, its axes are unknown
  /// The outputs that other steps may refer to; nothing if they are unknown because of a mistake.
  std::optional<std::vector<std::string>> outputs;
};

/// The context in which a step is read.
struct StepSurroundings {
  Names names;                      ///< without a matrix
  std::vector<std::string> images;  ///< declared by the workflow
  ElementAllowance allowance;       ///< for its matrix
  std::vector<std::string> steps;   ///< names of all steps
};

/// Reads the step `entry`. Adds all its mistakes except those that depend on other steps.
ParsedStep read_step(const YamlEntry& entry, const StepSurroundings& surroundings,
                     Mistakes& mistakes);

/// Fills in Step::needs of all steps, from `needs:` and from references. Adds mistakes for steps
/// and outputs that do not exist, a step that needs itself, and cycles with their path.
void link_steps(std::vector<ParsedStep>& steps, Mistakes& mistakes);

}  // namespace dlflow
