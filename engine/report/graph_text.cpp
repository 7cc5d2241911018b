#include "engine/report/graph_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/graph.h"
#include "engine/report/job_words.h"

namespace dlflow {
namespace {

/// The number of jobs of `step`, as "x4"; empty for one.
std::string multiplicity(const Step& step) {
  if (has_open_axis(step.matrix)) return "x?";
  const size_t elements = matrix_elements(step.matrix).size();
  return step.matrix.empty() ? "" : "x" + format_count(elements);
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

/// The colours of the report's page (page.css).
std::string_view colour(JobState look) {
  if (look == JobState::Cached) return "#4aa98c";
  if (satisfies_dependents(look)) return "#00795a";
  if (look == JobState::Running) return "#0072b2";
  if (!is_final(look) || look == JobState::Skipped) return "#8a94a1";
  return look == JobState::Blocked || look == JobState::Cancelled ? "#b37700" : "#c44900";
}

/// The state of a step: of its only job, or the counts of all.
struct StepLook {
  JobState state;
  std::string text;
};

/// Returns nothing if the graph is that of a workflow, not of a run.
std::optional<StepLook> look_of(const Step& step, const RunJobs& jobs) {
  for (const auto rows : by_step(jobs)) {
    if (rows.front().step != step.name) continue;
    const StepCounts counts(rows);
    if (rows.size() > 1) return StepLook{counts.look(), counts.text()};
    return StepLook{rows.front().state, std::string(name(rows.front().state))};
  }
  return std::nullopt;
}

/// "train", "train x2" and "2/2 done", a line each.
std::string label(const Step& step, const RunJobs& jobs, const std::string& line_end) {
  const std::string count = multiplicity(step);
  std::string text = step.name + line_end + kind_name(step) + (count.empty() ? "" : " " + count);
  const auto look = look_of(step, jobs);
  return look ? text + line_end + std::string(symbol(look->state, Style())) + " " + look->text
              : text;
}

}  // namespace

std::string graph_as_text(const Workflow& workflow, const RunJobs& jobs, const Style& style) {
  const bool any_counts = !std::ranges::all_of(
      workflow.steps, [](const Step& step) { return multiplicity(step).empty(); });
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t index : topological_order(workflow)) {
    const Step& step = workflow.steps[index];
    rows.push_back({step.name, kind_name(step)});
    if (any_counts) rows.back().push_back(multiplicity(step));
    if (!jobs.empty()) {
      const auto look = look_of(step, jobs);
      rows.back().push_back(look ? std::string(symbol(look->state, style)) + " " + look->text : "");
    }
    rows.back().push_back(step.needs.empty() ? "" : "← " + join(step.needs, ", "));
  }
  return columns(rows, std::vector(5, Align::Left));
}

std::string graph_as_dot(const Workflow& workflow, const RunJobs& jobs) {
  std::string text = "digraph " + quoted(workflow.name) +
                     " {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", "
                     "fillcolor=\"#f6f7f9\", color=\"#dde2e8\", fontcolor=\"#1b2430\", "
                     "fontname=\"sans-serif\", fontsize=12];\n  edge [color=\"#8a94a1\"];\n";
  for (const Step& step : workflow.steps) {
    const auto look = look_of(step, jobs);
    const std::string border = look ? ", color=" + quoted(std::string(colour(look->state))) : "";
    text +=
        "  " + quoted(step.name) + " [label=" + quoted(label(step, jobs, "\\n")) + border + "];\n";
  }
  for (const Step& step : workflow.steps) {
    for (const std::string& need : step.needs) {
      text += "  " + quoted(need) + " -> " + quoted(step.name) + ";\n";
    }
  }
  return text + "}\n";
}

std::string graph_as_mermaid(const Workflow& workflow, const RunJobs& jobs) {
  std::string text = "flowchart LR\n";
  const auto id = [](const std::string& name) { return "step_" + name; };  // "end" is a keyword
  for (const Step& step : workflow.steps) {
    text += "  " + id(step.name) + "[" + quoted(label(step, jobs, "<br/>")) + "]\n";
    const auto look = look_of(step, jobs);
    if (!look) continue;
    text += "  style " + id(step.name) + " stroke:" + std::string(colour(look->state)) + "\n";
  }
  for (const Step& step : workflow.steps) {
    for (const std::string& need : step.needs) {
      text += "  " + id(need) + " --> " + id(step.name) + "\n";
    }
  }
  return text;
}

std::string graph_as_svg(const Workflow& workflow, const RunJobs& jobs) {
  const auto program = find_program("dot", environment_variable("PATH"));
  if (!program) {
    throw Error(Errc::NotFound,
                "drawing an SVG needs `dot` (Debian's package graphviz); --format mermaid works "
                "without it");
  }
  Command dot;
  dot.argv = {program->string(), "-Tsvg"};
  dot.environment = current_environment();
  const Output picture = run(std::move(dot), graph_as_dot(workflow, jobs));
  if (picture.status.code != 0) {
    throw Error(Errc::Unavailable,
                "dot ended with exit status " + std::to_string(picture.status.code));
  }
  return picture.text;
}

}  // namespace dlflow
