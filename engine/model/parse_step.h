#pragma once

#include <string>
#include <vector>

#include "engine/model/check.h"
#include "engine/model/parse_matrix.h"
#include "engine/model/step_kinds.h"

/// One step of a workflow file.
namespace dlflow {

/// A step that another must wait for, and where the file says so.
struct Need {
  std::string step;
  Location location;
};

struct ParsedStep {
  Step step;                          ///< without `needs`
  std::vector<Need> needs;            ///< as given by `needs:`
  std::vector<Reference> references;  ///< to other steps' outputs, metrics and axes
  bool matrix_is_wrong = false;       ///< then nobody knows its axes
  /// What others may refer to; nothing if a mistake in the step keeps that from being known.
  std::optional<std::vector<std::string>> outputs;
};

/// The surroundings that a step is read in.
struct StepSurroundings {
  Names names;                      ///< without a matrix
  std::vector<std::string> images;  ///< that the workflow declares
  ElementAllowance allowance;       ///< of its matrix
};

/// Reads the step `entry`. Adds all its mistakes but those that other steps decide.
ParsedStep read_step(const YamlEntry& entry, const StepSurroundings& surroundings,
                     Mistakes& mistakes);

}  // namespace dlflow
