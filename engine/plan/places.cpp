#include "engine/plan/places.h"

#include <tuple>

#include "base/text.h"
#include "base/units.h"
#include "engine/model/resources.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

std::string profile_name(const Profile& profile) {
  return profile.file.empty() ? "the profile " + profile.name : profile.file;
}

std::vector<std::string> class_names(const Profile& profile) {
  std::vector<std::string> names;
  for (const NodeClass& node_class : profile.classes) names.push_back(node_class.name);
  return names;
}

[[noreturn]] void throw_unknown_class(const Plan& plan, const Step& step) {
  const std::vector<std::string> known = class_names(plan.profile);
  throw_at(plan.workflow, step.locations.at("on"),
           "step '" + step.name + "' is to run on '" + step.on + "', but " +
               profile_name(plan.profile) +
               (known.empty()
                    ? " has no classes; add `classes: {" + step.on + ": …}` to it"
                    : " has only the classes " + join(known, ", ") + did_you_mean(step.on, known)));
}

[[noreturn]] void throw_no_class(const Plan& plan, const PlannedJob& job) {
  std::string text = "no class of " + profile_name(plan.profile) + " fits step '" +
                     plan.workflow.steps[job.step].name + "'";
  for (size_t i = 0; i < plan.places.size(); ++i) {
    const NodeClass& node_class = plan.profile.classes[i];
    text += "\n       " + node_class.name + " " +
            (node_class.local ? "runs steps that name it, on the login node"
                              : misfit(*job.resources, plan.places[i]));
  }
  throw_at(
      plan.workflow, plan.workflow.steps[job.step].location_of("resources"),
      text + "\n       Ask for less, or name a class: `on: " + plan.profile.classes[0].name + "`.");
}

/// None if the step names an unknown class, or no class fits.
std::optional<uint32_t> find_place(const Plan& plan, const PlannedJob& job) {
  const Step& step = plan.workflow.steps[job.step];
  const std::vector<NodeClass>& classes = plan.profile.classes;
  for (uint32_t i = 0; i < classes.size(); ++i) {
    const bool taken = step.on.empty()
                           ? !classes[i].local && misfit(*job.resources, plan.places[i]).empty()
                           : step.on == classes[i].name;
    if (taken) return i;
  }
  return std::nullopt;
}

}  // namespace

std::string misfit(const Resources& resources, const Profile& profile) {
  const auto& [walltime, nodes, node] =
      std::tie(profile.limits.walltime, profile.limits.nodes, profile.node);
  const int together = ranks_together(resources, profile);
  const int64_t gpus = int64_t(together) * resources.gpus_per_rank;
  if (gpus > node.gpus) {
    return node.gpus == 0 ? "has no GPUs (node: {gpus: N})"
                          : "has " + plural(uint64_t(node.gpus), "GPU") + " on a node, not " +
                                std::to_string(gpus);
  }
  if (walltime.count() > 0 && resources.walltime > walltime) {
    return "allows " + format_duration(walltime) + ", not " + format_duration(resources.walltime);
  }
  if (const int asked = num_nodes(resources, profile); nodes > 0 && asked > nodes) {
    return "allows " + plural(uint64_t(nodes), "node") + ", not " + std::to_string(asked);
  }
  const int64_t cores = int64_t(together) * resources.cpus_per_rank;
  if (node.cores > 0 && cores > node.cores) {
    return "has " + plural(uint64_t(node.cores), "core") + " on a node, not " +
           std::to_string(cores);
  }
  const uint64_t memory = resources.memory_bytes / uint64_t(resources.ranks) * uint64_t(together);
  if (node.memory_bytes > 0 && memory > node.memory_bytes) {
    return "has " + format_size(node.memory_bytes) + " of memory on a node, not " +
           format_size(memory);
  }
  return "";
}

void place_jobs(Plan& plan) {
  if (!has_batch_system(plan.profile)) return;
  plan.places.clear();
  for (const NodeClass& node_class : plan.profile.classes) {
    plan.places.push_back(with_class(plan.profile, node_class));
  }
  for (PlannedJob& job : plan.jobs) {
    const Step& step = plan.workflow.steps[job.step];
    job.place = find_place(plan, job);
    const bool needs_none = job.action == Action::Reuse || (plan.places.empty() && step.on.empty());
    if (job.place || needs_none) continue;
    if (!step.on.empty()) throw_unknown_class(plan, step);
    throw_no_class(plan, job);
  }
}

const Profile& profile_of(const Plan& plan, const PlannedJob& job) {
  return job.place ? plan.places[*job.place] : plan.profile;
}

bool is_on_login_node(const Plan& plan, const PlannedJob& job) {
  return job.place && plan.profile.classes[*job.place].local;
}

}  // namespace dlflow
