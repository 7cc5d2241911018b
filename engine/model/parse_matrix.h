#pragma once

#include <optional>

#include "engine/model/check.h"

namespace dlflow {

/// Reads `matrix:` of the step that `subject` names. Adds what is wrong with it, and then gives
/// nothing; a matrix of more than `most_elements` is wrong.
std::optional<Matrix> read_matrix(const YamlNode& node, Mistakes& mistakes, const Names& names,
                                  const Subject& subject, size_t most_elements);

}  // namespace dlflow
