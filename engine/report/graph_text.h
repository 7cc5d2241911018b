#pragma once

#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/report/style.h"
#include "engine/store/run_status.h"

/// The steps of a workflow, or of a run with their states, as a picture: for terminals, Graphviz
/// and Markdown.
namespace dlflow {

/// The jobs of a run in plan order; none: the graph is that of a workflow.
using RunJobs = std::vector<JobRow>;

/// One line per step in the order they can run: "train   x4   ✔ 4/4 done   ← data".
std::string graph_as_text(const Workflow& workflow, const RunJobs& jobs, const Style& style);

/// Graphviz, in the colours of the report's page.
std::string graph_as_dot(const Workflow& workflow, const RunJobs& jobs);

/// A Mermaid flowchart, which GitHub shows as a picture.
std::string graph_as_mermaid(const Workflow& workflow, const RunJobs& jobs);

/// The steps as SVG, drawn by Graphviz. Throws Error{NotFound} if `dot` is not in PATH, saying what
/// to install.
std::string graph_as_svg(const Workflow& workflow, const RunJobs& jobs);

}  // namespace dlflow
