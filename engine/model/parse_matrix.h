#pragma once

#include <optional>

#include "engine/model/check.h"

namespace dlflow {

/// The number of elements that a workflow may have, and the number that the steps above have.
struct ElementAllowance {
  size_t most = 0;
  size_t used = 0;
};

/// Reads `matrix:` of the step that `subject` names. If it has mistakes, adds them and returns
/// nothing. \param references  receives the outputs that axes take their values from.
std::optional<Matrix> read_matrix(const YamlNode& node, Mistakes& mistakes, const Names& names,
                                  const Subject& subject, ElementAllowance allowance,
                                  std::vector<Reference>& references);

/// Adds a mistake at `location` and returns false if `matrix` has more elements than allowed.
bool check_allowance(const Matrix& matrix, Mistakes& mistakes, const Subject& subject,
                     Location location, ElementAllowance allowance);

}  // namespace dlflow
