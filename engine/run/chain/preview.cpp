#include "engine/run/chain/preview.h"

#include <filesystem>
#include <set>

#include "engine/batch/batches.h"
#include "engine/batch/limits.h"
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
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (plan.jobs[job].action != Action::Reuse) standings[job].kind = Standing::Kind::ToSubmit;
  }
  return standings;
}

}  // namespace

std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services) {
  const ClusterLimits cluster = services.batch.cluster();
  check_limits(plan, services.batch, cluster);
  plan.profile = with_cluster_limits(plan.profile, cluster);
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
    previewed.push_back({.step = planned.step,
                         .jobs = planned.jobs,
                         .tasks = batch.tasks,
                         .resources = batch.resources,
                         .nodes = num_nodes(batch.resources, plan.profile),
                         .limit = time_limit(batch.resources, plan.profile),
                         .waits_for = parents_of(planned),
                         .script = services.batch.script(batch, plan.profile)});
    ids.push_back("JOB" + std::to_string(place + 1));
  }
  return previewed;
}

}  // namespace dlflow
