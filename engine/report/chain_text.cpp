#include "engine/report/chain_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "engine/plan/places.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

/// For a step with `pack`.
std::string elements_in_tasks(size_t elements, size_t tasks) {
  return std::to_string(elements) + " elements in " + std::to_string(tasks) +
         (tasks == 1 ? " task" : " tasks");
}

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

/// "1", "array of 4", "40 elements in 2 tasks"
std::string size_of_batch(const PreviewedBatch& batch) {
  if (!batch.tasks.empty() && batch.jobs.size() > batch.tasks.size())
    return elements_in_tasks(batch.jobs.size(), batch.tasks.size());
  return batch.tasks.empty() ? "1" : "array of " + std::to_string(batch.tasks.size());
}

std::string nodes_of(const PreviewedBatch& batch) {
  return batch.nodes == 0 ? "-" : std::to_string(batch.nodes);
}

/// "1, 2"; "-" for none.
std::string places_before(const PreviewedBatch& batch) {
  std::vector<std::string> numbers;
  for (const uint32_t place : batch.waits_for) numbers.push_back(std::to_string(place + 1));
  return numbers.empty() ? "-" : join(numbers, ", ");
}

/// Returns the partition of the node class that the batch's jobs use.
const std::string& partition_of_batch(const Plan& plan, const PreviewedBatch& batch) {
  return partition_of(profile_of(plan, plan.jobs[batch.jobs.front()]));
}

/// "fetch runs here, on the login node.\n" for each such step.
std::string steps_here(const Plan& plan) {
  std::string text;
  std::optional<uint32_t> last;
  for (const PlannedJob& job : plan.jobs) {
    if (job.action == Action::Reuse || !is_on_login_node(plan, job) || last == job.step) continue;
    last = job.step;
    text += plan.workflow.steps[job.step].name + " runs here, on the login node.\n";
  }
  return text;
}

}  // namespace

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

std::string preview_text(const Plan& plan, const std::vector<PreviewedBatch>& batches) {
  std::vector<std::vector<std::string>> rows = {
      {"NO", "STEP", "JOBS", "RANKS", "NODES", "TIME LIMIT", "PARTITION", "AFTER"}};
  for (size_t place = 0; place < batches.size(); ++place) {
    const PreviewedBatch& batch = batches[place];
    rows.push_back({std::to_string(place + 1), plan.workflow.steps[batch.step].name,
                    size_of_batch(batch), std::to_string(batch.resources.ranks), nodes_of(batch),
                    batch.limit.count() == 0 ? "-" : format_duration(batch.limit),
                    or_dash(partition_of_batch(plan, batch)), places_before(batch)});
  }
  const std::vector<Align> align(rows.front().size(), Align::Left);
  return columns(rows, align) + steps_here(plan);
}

std::string preview_scripts(const Plan& plan, const std::vector<PreviewedBatch>& batches) {
  std::string text;
  for (size_t place = 0; place < batches.size(); ++place) {
    text += "\n# " + std::to_string(place + 1) + ": step '" +
            plan.workflow.steps[batches[place].step].name + "'\n" + batches[place].script;
  }
  return text;
}

Json to_json(const Plan& plan, const std::vector<PreviewedBatch>& batches) {
  Json list = Json::array();
  for (const PreviewedBatch& batch : batches) {
    Json jobs = Json::array();
    for (const uint32_t job : batch.jobs) jobs.push_back(plan.jobs[job].name);
    list.push_back({{"step", plan.workflow.steps[batch.step].name},
                    {"jobs", std::move(jobs)},
                    {"tasks", batch.tasks},
                    {"partition", partition_of_batch(plan, batch)},
                    {"ranks", batch.resources.ranks},
                    {"nodes", batch.nodes == 0 ? Json() : Json(batch.nodes)},
                    {"limit_s", batch.limit.count() == 0 ? Json() : Json(60 * batch.limit.count())},
                    {"after", batch.waits_for},
                    {"script", batch.script}});
  }
  return list;
}

}  // namespace dlflow
