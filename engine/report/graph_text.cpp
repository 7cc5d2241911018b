#include "engine/report/graph_text.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/graph.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

/// The number of jobs of `step`, as "x4"; empty for one.
std::string multiplicity(const Step& step) {
  if (has_open_axis(step.matrix)) return "x?";
  const size_t elements = matrix_elements(step.matrix).size();
  return step.matrix.empty() ? "" : "x" + format_count(elements);
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::string graph_as_text(const Workflow& workflow) {
  const bool any_counts = !std::ranges::all_of(
      workflow.steps, [](const Step& step) { return multiplicity(step).empty(); });
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t index : topological_order(workflow)) {
    const Step& step = workflow.steps[index];
    rows.push_back({step.name, kind_name(step)});
    if (any_counts) rows.back().push_back(multiplicity(step));
    rows.back().push_back(step.needs.empty() ? "" : "← " + join(step.needs, ", "));
  }
  return columns(rows, std::vector(4, Align::Left));
}

std::string graph_as_dot(const Workflow& workflow) {
  std::string text =
      "digraph " + quoted(workflow.name) +
      " {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";
  for (const Step& step : workflow.steps) {
    const std::string count = multiplicity(step);
    text += "  " + quoted(step.name) + " [label=" +
            quoted(step.name + "\\n" + kind_name(step) + (count.empty() ? "" : " " + count)) +
            "];\n";
  }
  for (const Step& step : workflow.steps) {
    for (const std::string& need : step.needs) {
      text += "  " + quoted(need) + " -> " + quoted(step.name) + ";\n";
    }
  }
  return text + "}\n";
}

std::string graph_as_mermaid(const Workflow& workflow) {
  std::string text = "flowchart LR\n";
  for (const Step& step : workflow.steps) {
    const std::string count = multiplicity(step);
    text += "  " + step.name + "[" +
            quoted(step.name + "<br/>" + kind_name(step) + (count.empty() ? "" : " " + count)) +
            "]\n";
  }
  for (const Step& step : workflow.steps) {
    for (const std::string& need : step.needs) text += "  " + need + " --> " + step.name + "\n";
  }
  return text;
}

std::string graph_as_svg(const Workflow& workflow) {
  const char* path = std::getenv("PATH");
  const auto program = find_program("dot", path == nullptr ? "/usr/bin" : path);
  if (!program) {
    throw Error(
        Errc::NotFound,
        "drawing an SVG needs `dot` (Debian's package graphviz); --format mermaid needs nothing");
  }
  Command dot;
  dot.argv = {program->string(), "-Tsvg"};
  dot.environment = current_environment();
  const Output picture = run(std::move(dot), graph_as_dot(workflow));
  if (picture.status.code != 0) {
    throw Error(Errc::Unavailable,
                "dot ended with exit status " + std::to_string(picture.status.code));
  }
  return picture.text;
}

}  // namespace dlflow
