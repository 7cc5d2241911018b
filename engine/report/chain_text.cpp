#include "engine/report/chain_text.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/units.h"

namespace dlflow {
namespace {

std::string describe(const Plan& plan, const SubmittedBatch& batch) {
  std::vector<std::string> facts;
  if (batch.jobs > batch.tasks) {
    facts.push_back(elements_in_tasks(batch.jobs, batch.tasks));
  } else if (batch.tasks > 1) {
    facts.push_back("array of " + std::to_string(batch.tasks));
  }
  if (batch.resources.ranks > 1) facts.push_back(std::to_string(batch.resources.ranks) + " ranks");
  if (batch.resources.walltime.count() > 0) {
    facts.push_back(format_duration(batch.resources.walltime));
  }
  std::string text = plan.workflow.steps[batch.step].name + " " + batch.id;
  return facts.empty() ? text : text + " (" + join(facts, ", ") + ")";
}

bool waits_for(const Plan& plan, const SubmittedBatch& batch, const SubmittedBatch& before) {
  const std::vector<std::string>& needs = plan.workflow.steps[batch.step].needs;
  const std::string& parent = plan.workflow.steps[before.step].name;
  return std::find(needs.begin(), needs.end(), parent) != needs.end();
}

}  // namespace

std::string elements_in_tasks(size_t elements, size_t tasks) {
  return std::to_string(elements) + " elements in " + std::to_string(tasks) +
         (tasks == 1 ? " task" : " tasks");
}

std::string chain_text(const Plan& plan, std::span<const SubmittedBatch> batches,
                       const Style& style) {
  const std::string arrow = style.utf8 ? " → " : " -> ";
  std::string text;
  size_t column = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const std::string word = describe(plan, batches[i]);
    const std::string gap = i == 0                                        ? "  "
                            : waits_for(plan, batches[i], batches[i - 1]) ? arrow
                                                                          : ", ";
    const bool fits = column + display_width(gap + word) + 3 <= size_t(style.width);
    if (i > 0 && !fits) {
      text += gap.substr(0, gap.size() - 1) + "\n    ";
      column = 4;
    } else {
      text += gap;
      column += display_width(gap);
    }
    text += word;
    column += display_width(word);
  }
  return text + "\n";
}

}  // namespace dlflow
