#include "engine/run/chain/preview.h"

#include <filesystem>
#include <set>

#include "engine/batch/batches.h"
#include "engine/batch/limits.h"
#include "engine/plan/extension.h"
#include "engine/plan/places.h"
#include "engine/run/chain/fit.h"
#include "engine/run/chain/round.h"

namespace dlflow {
namespace {

/// The places of the submissions that `planned` waits for, each once.
std::vector<uint32_t> parents_of(const PlannedBatch& planned) {
  std::set<uint32_t> places;
  for (const PlannedDependency& dependency : planned.waits_for) places.insert(dependency.batch);
  return {places.begin(), places.end()};
}

std::vector<Standing> standings_of(const Plan& plan) {
  std::vector<Standing> standings(plan.jobs.size());
  std::vector<bool> waits_for_list(plan.jobs.size(), false);
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    const PlannedJob& planned = plan.jobs[job];
    bool waits = is_open(plan, job);
    plan.graph.each_parent(job, [&](uint32_t parent) { waits |= waits_for_list[parent]; });
    waits_for_list[job] = waits;
    if (planned.action != Action::Reuse && !is_on_login_node(plan, planned) && !waits)
      standings[job].kind = Standing::Kind::ToSubmit;
  }
  return standings;
}

}  // namespace

std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services) {
  fit_to_cluster(plan, services);
  plan.run = "RUN";
  plan.directory = std::filesystem::absolute(plan.profile.runs) / plan.run;
  const ArrayRules rules = array_rules(services.batch, plan.profile);
  const std::vector<PlannedBatch> batches = plan_batches(plan, standings_of(plan), rules);
  const BatchRange numbers = {1, uint32_t(batches.size())};
  std::vector<std::string> ids;
  std::vector<PreviewedBatch> previewed;
  for (uint32_t place = 0; place < batches.size(); ++place) {
    const PlannedBatch& planned = batches[place];
    const Batch batch = describe_batch(plan, planned, numbers, place, ids);
    const Profile& profile = profile_of(plan, plan.jobs[planned.jobs.front()]);
    previewed.push_back({.step = planned.step,
                         .jobs = planned.jobs,
                         .tasks = batch.tasks,
                         .resources = batch.resources,
                         .nodes = num_nodes(batch.resources, profile),
                         .limit = time_limit(batch.resources, profile),
                         .waits_for = parents_of(planned),
                         .script = services.batch.script(batch, profile)});
    ids.push_back("JOB" + std::to_string(place + 1));
  }
  return previewed;
}

}  // namespace dlflow
