#include "engine/plan/plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "engine/model/tools.h"
#include "engine/plan/extension.h"
#include "engine/plan/fingerprint_base.h"
#include "engine/plan/layout.h"
#include "engine/plan/places.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/surroundings.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> launcher_of(const Profile& profile, const Resources& resources,
                                     Launch launch) {
  if (resources.ranks == 1) return {};
  std::vector<std::string> argv = {profile.launcher.program};
  const auto& arguments = profile.launcher.arguments;
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  if (launch == Launch::Node) return argv;
  const bool srun = fs::path(profile.launcher.program).filename() == "srun";
  argv.insert(argv.end(), {srun ? "-n" : "-np", std::to_string(resources.ranks)});
  // Since 22.05, srun gives each task one core unless -c is repeated here.
  if (srun) argv.insert(argv.end(), {"-c", std::to_string(resources.cpus_per_rank)});
  return argv;
}

std::vector<ParentRef> parents_of(const Plan& plan, uint32_t job) {
  std::vector<ParentRef> parents;
  plan.graph.each_parent(job, [&](uint32_t number) {
    const PlannedJob& parent = plan.jobs[number];
    const Step& step = plan.workflow.steps[parent.step];
    const auto reused = plan.reused.find(number);
    parents.push_back(
        {step.name, (*plan.steps[parent.step].elements)[parent.element],
         reused == plan.reused.end() ? job_directory(plan, number) : reused->second.directory,
         plan.skipped.contains(number), step.allow_failure, plan.failed.contains(number),
         step.uses.empty()});
  });
  return parents;
}

/// The names of the parents that are commands with effects elsewhere. \param parents  see
/// parents_as_seen()
std::vector<std::string> acting_parents(const Plan& plan, uint32_t job,
                                        std::span<const ParentResult> parents) {
  std::vector<std::string> names;
  size_t place = 0;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    const bool is_command = plan.workflow.steps[plan.jobs[parent].step].uses.empty();
    const bool acts = is_command && did_something_elsewhere(parents[place]);
    if (acts) names.push_back(plan.jobs[parent].name);
    ++place;
  });
  return names;
}

/// Makes the paths in `with:` absolute, so that they are valid in any working directory.
void make_absolute(const Plan& plan, const std::string& uses, Json& with) {
  visit_paths(uses, with, [&](const std::string&, PathRole role, Json& path) {
    const auto name = path.get<std::string>();
    if (role == PathRole::Outside) {
      path = (plan.base / name).lexically_normal().string();
    } else if (plan.files.contains(name)) {
      path = frozen_file(plan, name).string();
    }
  });
}

/// "oci:images/x" with an absolute path.
std::string absolute_source(const Plan& plan, const std::string& from) {
  if (from.starts_with("docker://")) return from;
  const size_t colon = from.find(':') + 1;
  return from.substr(0, colon) + (plan.base / from.substr(colon)).lexically_normal().string();
}

std::optional<ContainerSpec> container_of(const Plan& plan, const Step& step) {
  for (const Image& image : plan.workflow.images) {
    if (image.name != step.image) continue;
    return ContainerSpec{image.name, absolute_source(plan, image.from), image.digest, image.build,
                         plan.profile.container};
  }
  return std::nullopt;
}

void decide_from(Plan& plan, KnownResults& known) {
  FingerprintBases bases(plan);
  const auto left = [&](uint32_t parent) {
    return as_parent(plan, parent, plan.reused.at(parent));
  };
  decide(plan, [&](uint32_t job) {
    return reusable_result(plan, job, bases.of(job), parents_as_seen(plan, job, left), known);
  });
}

}  // namespace

std::string_view words(Cause cause) {
  constexpr std::array<std::string_view, 7> kWords = {
      "there is no earlier result",
      "forced",
      "its files are compared with those at the destination",
      "in each run, because of `always()`",
      "nothing relevant changed",
      "decided once its parents are done",
      "as many as a step lists"};
  return kWords[size_t(cause)];
}

Plan make_plan(Workflow workflow, const Profile& profile, const PlanOptions& options,
               KnownResults& known, FileHashes& hashes) {
  Plan plan;
  plan.base = fs::absolute(workflow.file).parent_path();
  plan.workflow = std::move(workflow);
  plan.profile = profile;
  plan.options = options;
  lay_out(plan);
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    plan.steps[step].version = work_version(plan.workflow.steps[step].uses);
  }
  place_jobs(plan);
  read_files(plan, hashes);
  decide_from(plan, known);
  return plan;
}

fs::path cache_directory(const Profile& profile) {
  if (!profile.cache.empty()) return fs::absolute(profile.cache);
  const fs::path cache = environment_variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache / "dlflow";
  const fs::path home = environment_variable("HOME");
  if (home.empty()) {
    throw Error(Errc::InvalidInput,
                "there is no folder for the cache: set HOME, or `cache:` in the profile");
  }
  return fs::path(home) / ".cache/dlflow";
}

fs::path job_directory(const Plan& plan, uint32_t job) {
  return job_directory(plan.directory, plan.jobs[job].name);
}

ParentResult as_parent(const Plan& plan, uint32_t number, const KnownResult& result) {
  const PlannedJob& job = plan.jobs[number];
  return {.step = plan.workflow.steps[job.step].name,
          .element = (*plan.steps[job.step].elements)[job.element],
          .directory = result.directory,
          .skipped = false,
          .outputs = result.outputs,
          .metrics = result.metrics,
          .fingerprint = result.fingerprint};
}

std::vector<ParentResult> parents_as_seen(const Plan& plan, uint32_t job,
                                          const std::function<ParentResult(uint32_t)>& left) {
  std::vector<ParentResult> parents;
  plan.graph.each_parent(job, [&](uint32_t parent) { parents.push_back(left(parent)); });
  return parents;
}

std::optional<KnownResult> reusable_result(const Plan& plan, uint32_t number, std::string_view base,
                                           std::span<const ParentResult> parents,
                                           KnownResults& known) {
  const PlannedJob& job = plan.jobs[number];
  if (has_unknown_conditions(plan, job)) return std::nullopt;
  const Json& element = (*plan.steps[job.step].elements)[job.element];
  const Fingerprint wanted = fingerprint(base, element, parents);
  if (wanted.empty()) return std::nullopt;
  auto result = known.find(wanted, acting_parents(plan, number, parents));
  if (!result) return std::nullopt;
  result->fingerprint = wanted;
  // The result may lack a metric that no step read when it was made.
  const Step& step = plan.workflow.steps[job.step];
  for (const auto& [metric, reader] : metrics_read_by_others(plan.workflow, step)) {
    if (!result->metrics.contains(metric)) return std::nullopt;
  }
  return result;
}

JobSpec job_spec(const Plan& plan, uint32_t number) {
  const PlannedJob& job = plan.jobs[number];
  const Step& step = plan.workflow.steps[job.step];
  const Json run = {{"id", plan.run}, {"directory", plan.directory.string()}};
  const Json& element = (*plan.steps[job.step].elements)[job.element];
  const Context known{.params = &plan.workflow.params, .matrix = &element, .run = &run};

  JobSpec spec;
  spec.run = plan.run;
  spec.job = job.name;
  spec.step = step.name;
  spec.element = element;
  spec.uses = step.uses;
  spec.run_command = step.run.evaluate_known(known);
  spec.with = step.with.evaluate_known(known);
  make_absolute(plan, step.uses, spec.with);
  spec.environment = plan.profile.environment;
  spec.environment.update(step.environment.evaluate_known(known));
  spec.inherit = inherited_by(plan.profile, step);
  spec.secrets = secrets_of(plan, step);
  spec.condition = step.condition.evaluate_known(known);
  spec.params = plan.steps[job.step].visible_params;
  spec.late_params = late_params(step, known);
  spec.sees_run = plan.steps[job.step].sees_run;
  spec.resources = *job.resources;
  spec.launch = step.launch;
  spec.container = container_of(plan, step);
  spec.checkpoint = step.checkpoint;
  spec.retry = step.retry;
  spec.allow_failure = step.allow_failure;
  spec.always = step.always;
  spec.require = step.require;
  spec.outputs = step.outputs;
  spec.lists = listed_outputs(plan.workflow, step.name);
  spec.needed_metrics = metrics_read_by_others(plan.workflow, step);
  spec.parents = parents_of(plan, number);
  for (const std::string& name : plan.steps[job.step].inputs) {
    spec.inputs.emplace(name, frozen_file(plan, name).string());
  }
  for (const DataInput& data : step.data) spec.data.push_back(data.path);
  spec.sources = source_proofs(plan, job, step.with.evaluate_known(known));
  spec.base = plan.base;
  spec.run_directory = plan.directory;
  spec.job_directory = job_directory(plan, number);
  spec.cache = cache_directory(plan.profile);
  spec.cache_budget_bytes = plan.profile.cache_budget_bytes;
  spec.scratch = plan.profile.scratch;
  spec.scratch_budget_bytes = plan.profile.scratch_budget_bytes;
  const Profile& place = profile_of(plan, job);
  spec.node_memory_bytes = place.node.memory_bytes;
  spec.walltime_limit = place.limits.walltime;
  spec.launcher = launcher_of(place, *job.resources, step.launch);
  spec.setup = place.setup;
  for (std::string& line : tool_lines(step.tools, plan.base)) spec.setup.push_back(std::move(line));
  spec.fingerprint_base = fingerprint_base(plan, number);
  spec.reuse =
      job.cause != Cause::Forced && job.cause != Cause::ActsOutside && job.cause != Cause::Always;
  return spec;
}

std::optional<uint32_t> find_job(const Plan& plan, std::string_view name) {
  const auto found = std::find_if(plan.jobs.begin(), plan.jobs.end(),
                                  [name](const PlannedJob& job) { return job.name == name; });
  if (found == plan.jobs.end()) return std::nullopt;
  return uint32_t(found - plan.jobs.begin());
}

}  // namespace dlflow
