#pragma once

#include <string>

#include "engine/model/workflow.h"

namespace dlflow {

/// The steps as SVG, drawn by Graphviz. Throws Error{NotFound} if `dot` is not in PATH, saying what
/// to install.
std::string graph_as_svg(const Workflow& workflow);

}  // namespace dlflow
