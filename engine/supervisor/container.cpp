#include "engine/supervisor/container.h"

#include <filesystem>

#include "engine/container/runtime.h"
#include "engine/plan/inherited.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Files and folders of the host that `with` names, at any depth.
void collect_paths(const Json& value, std::vector<Bind>& binds) {
  if (value.is_structured()) {
    for (const Json& part : value) collect_paths(part, binds);
  }
  if (!value.is_string()) return;
  auto text = value.get<std::string>();
  if (text.starts_with("file://")) text.erase(0, 7);
  std::error_code ignored;
  if (!text.starts_with('/') || !fs::exists(text, ignored)) return;
  binds.push_back({text, text, true});
}

std::vector<Bind> binds_of(const JobSpec& spec, const ResolvedJob& job) {
  // The folder of all runs, not only of this one: images get one folder to mount them on, not one
  // per run.
  const fs::path runs = spec.run_directory.parent_path();
  std::vector<Bind> binds = {{runs, runs}, {spec.cache, spec.cache}};
  for (const ParentRef& parent : spec.parents) {
    binds.push_back({parent.directory, parent.directory, true});
  }
  for (const std::string& path : spec.data) binds.push_back({path, path, true});
  collect_paths(job.with, binds);
  std::erase_if(binds, [&](const Bind& bind) {
    return bind.source.string().starts_with(runs.string() + "/");
  });
  for (const std::string& text : spec.container->settings.binds) binds.push_back(parse_bind(text));
  return binds;
}

/// The launcher's program, if it belongs to an MPI; srun belongs to SLURM.
std::string mpirun_of(const JobSpec& spec) {
  if (spec.resources.ranks <= 1 || spec.launcher.empty()) return "";
  const std::string& program = spec.launcher.front();
  const std::string name = fs::path(program).filename();
  return name == "mpirun" || name == "mpiexec" || name == "mpiexec.hydra" ? program : "";
}

}  // namespace

bool container_starts_ranks(const ContainerSpec& container) {
  const ContainerRuntime* const runtime = find_runtime(container.settings.runtime);
  return runtime != nullptr && runtime->starts_ranks;
}

ContainerJob container_job(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files) {
  const ContainerSpec& container = *spec.container;
  ContainerJob result;
  result.image = container.image;
  result.from = container.from;
  result.digest = container.digest;
  result.build = container.build;
  result.cache = spec.cache;
  result.cache_budget_bytes = spec.cache_budget_bytes;
  result.runtime = container.settings.runtime;
  result.command = container.settings.command;
  result.mode = container.settings.mode;
  result.arguments = container.settings.arguments;
  if (container_starts_ranks(container)) {
    result.launcher = spec.launcher.empty() ? std::vector<std::string>{"srun", "-n", "1"}
                                            : rank_launcher(spec, job.ranks);
    result.ranks = spec.launch == Launch::Node ? job.ranks.num_programs() : spec.resources.ranks;
  }
  if (!container_starts_ranks(container)) result.mpirun = mpirun_of(spec);
  result.binds = binds_of(spec, job);
  result.directory = files.work();
  result.gpus = spec.resources.gpus_per_rank > 0;
  for (const char* shell : {kBash, kSh}) {
    std::vector<std::string> command = rank_program(spec, job, files, shell);
    if (result.commands.empty() || result.commands.front() != command) {
      result.commands.push_back(std::move(command));
    }
  }
  result.environment = declared_environment(spec, job, files);
  result.environment.merge(passed_on(named_by(caller_variables(spec), spec.inherit), spec));
  if (spec.uses.empty()) result.rank_plan = job.ranks;
  result.secrets = spec.secrets;
  result.secrets_file = secrets_file(spec.run_directory);
  if (container_starts_ranks(container) || spec.resources.ranks == 1) {
    result.log = files.standard_error();
  }
  return result;
}

std::vector<std::string> container_program(const JobSpec& spec, const AttemptFiles& files) {
  return {frozen_program(spec.run_directory), "container-run", files.container()};
}

}  // namespace dlflow
