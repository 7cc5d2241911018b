#pragma once

#include <string>

#include "engine/model/workflow.h"

/// The steps of a workflow as a picture: for terminals, Graphviz and Markdown.
namespace dlflow {

/// One line per step in the order they can run: "train   x4   ← data".
std::string graph_as_text(const Workflow& workflow);

/// Graphviz.
std::string graph_as_dot(const Workflow& workflow);

/// A Mermaid flowchart, which GitHub shows as a picture.
std::string graph_as_mermaid(const Workflow& workflow);

/// The steps as SVG, drawn by Graphviz. Throws Error{NotFound} if `dot` is not in PATH, saying what
/// to install.
std::string graph_as_svg(const Workflow& workflow);

}  // namespace dlflow
