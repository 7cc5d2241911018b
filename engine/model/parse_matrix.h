#pragma once

#include <optional>

#include "engine/model/check.h"

namespace dlflow {

/// How many elements the matrices of a workflow may have together, and those above have.
struct ElementAllowance {
  size_t most = 0;
  size_t used = 0;
};

/// Reads `matrix:` of the step that `subject` names. Adds what is wrong with it, and then gives
/// nothing. \param references  gets the outputs that axes take their values from.
std::optional<Matrix> read_matrix(const YamlNode& node, Mistakes& mistakes, const Names& names,
                                  const Subject& subject, ElementAllowance allowance,
                                  std::vector<Reference>& references);

/// Adds a mistake at `location` if `matrix` has more elements than are allowed; false then.
bool check_allowance(const Matrix& matrix, Mistakes& mistakes, const Subject& subject,
                     Location location, ElementAllowance allowance);

}  // namespace dlflow
