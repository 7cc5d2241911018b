#include "engine/cli/warnings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/mpi.h"
#include "base/process.h"
#include "base/text.h"
#include "base/url.h"
#include "engine/cli/data_check.h"
#include "engine/cli/release_image.h"
#include "engine/container/image_mpi.h"
#include "engine/container/tool.h"
#include "engine/model/script_variables.h"
#include "engine/model/step_kinds.h"
#include "engine/model/unlisted_files.h"
#include "engine/model/wasted_ranks.h"
#include "engine/plan/inherited.h"
#include "engine/plan/layout.h"
#include "engine/plan/loading.h"
#include "engine/plan/surroundings.h"
#include "engine/ranks/rank_variables.h"
#include "engine/run/batch_systems.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

bool tells_rank(std::string_view name) {
  const auto of_rank = rank_variable_names();
  return std::ranges::find(of_rank, name) != of_rank.end();
}

/// Whether the step gives no number of ranks, so that its program gets no rank.
bool is_alone(const Step& step) {
  const Json& asked = step.resources.source();
  if (!asked.is_null() && !asked.is_object()) return false;  // an expression
  return step.launch == Launch::Ranks && !asked.contains("ranks") && !asked.contains("nodes") &&
         !asked.contains("ranks_per_node");
}

/// Whether the step has this variable regardless of the caller's environment.
bool is_given(const Step& step, const Profile& profile, const std::string& name) {
  const Json& own = step.environment.source();
  return name.starts_with("DLFLOW_") || (tells_rank(name) && !is_alone(step)) ||
         name == "OMP_NUM_THREADS" || own.contains(name) || step.secrets.contains(name) ||
         profile.environment.contains(name);
}

/// The path of data that a step reads in place; empty if it is not on this machine.
fs::path local_place(const fs::path& base, const std::string& name) {
  if (parse_file_url(name) || name.find("://") != std::string::npos) return {};
  return (base / name).lexically_normal();
}

bool is_of_pytorch(const fs::path& file) {
  const fs::path ending = file.extension();
  return ending == ".pt" || ending == ".pth" || ending == ".ckpt";
}

/// Warnings about one step after the other.
class StepWarnings {
 public:
  StepWarnings(const Workflow& workflow, const Profile& profile, Diagnostics& warnings)
      : workflow_(workflow),
        profile_(profile),
        warnings_(warnings),
        base_(fs::absolute(workflow.file).parent_path()) {}

  void add_all(const Step& step) {
    add_doubts_about_data(step);
    for (const std::string& text : wasted_ranks(step, workflow_.params)) {
      warn(step, "resources", ": " + text);
    }
    add_idle_gpus(step);
    add_pruned(step);
    add_variables(step);
    add_walltime(step);
    add_missing_data(step);
    add_missing_files(step);
    const std::string problem = loading_problem_of(step, profile_);
    if (!problem.empty()) warn_at(step, "uses", problem);
  }

 private:
  void warn_at(const Step& step, const std::string& key, const std::string& text) {
    warnings_.push_back({workflow_.file, step.location_of(key), text});
  }
  void warn(const Step& step, const std::string& key, const std::string& text) {
    warn_at(step, key, "step '" + step.name + "'" + text);
  }

  /// Warns of scores for classes that the data does not have, and of batches larger than the data.
  void add_doubts_about_data(const Step& step) {
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr || kind->data.empty() || has_open_axis(step.matrix)) return;
    each_known_with(workflow_, step, [&](const Json& with) {
      for (const DataMistake& doubt : doubts_about_data(workflow_, *kind, with)) {
        warn(step, doubt.key, ": " + doubt.text);
      }
    });
  }

  /// Warns of GPUs that a step asks for but does not use.
  void add_idle_gpus(const Step& step) {
    const Json& asked = step.resources.source();
    const bool has_gpus = asked.is_object() && asked.value("gpus_per_rank", Json(0)) != 0;
    if (step.uses.empty() || !has_gpus || step.with.source().value("device", "cpu") != "cpu") {
      return;
    }
    warn(
        step, "resources",
        " asks for GPUs but computes on CPUs; leave gpus_per_rank out, or train with device: cuda");
  }

  /// Warns of pruned results, which cannot be reused.
  void add_pruned(const Step& step) {
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr || kind->selects_from.empty()) return;
    const Json& with = step.with.source();
    if (!with.is_object() || !with.contains("prune")) return;
    std::set<std::string> pruned;
    for (const Reference& reference : step.with.references()) {
      if (reference.path[0] == "steps") pruned.insert("'" + reference.path[1] + "'");
    }
    if (pruned.empty()) return;
    const std::vector<std::string> names(pruned.begin(), pruned.end());
    warn(step, "with.prune",
         " prunes what " + join(names, " and ") +
             " left, which then cannot be reused: the next run makes it again; write "
             "checkpoint: {keep: N} there instead, or leave prune out");
  }

  /// Warns of variables that are set here and that a script reads, but that are unset in its step.
  void add_variables(const Step& step) {
    if (!step.run.source().is_string()) return;
    for (const std::string& name : variables_read(step.run.source().get<std::string>())) {
      const bool arrives =
          is_given(step, profile_, name) || is_inherited(name, inherited_by(profile_, step));
      if (!arrives && tells_rank(name)) {
        warn(step, "run",
             " reads $" + name +
                 ", which only steps with a number of ranks get; write resources: {ranks: 1}");
      } else if (!arrives && std::getenv(name.c_str()) != nullptr) {
        warn(step, "run",
             " reads $" + name + ", which is set here but is not passed on to it; write env: {" +
                 name + ": …}, or inherit: [" + name + "]");
      }
    }
  }

  /// Warns of missing walltimes: a partition's default is often minutes, or its maximum.
  void add_walltime(const Step& step) {
    const Json& asked = step.resources.source();
    if (!is_batch_system(profile_.scheduler)) return;
    if (!asked.is_null() && (!asked.is_object() || asked.contains("walltime"))) return;
    warn(step, "resources",
         " has no walltime, so the cluster's default applies; write resources: {walltime: 2h}");
  }

  /// Warns of files that a step reads in place and that do not exist (yet) or are PyTorch's.
  void add_missing_data(const Step& step) {
    if (step.uses.empty() || has_open_axis(step.matrix)) return;
    each_known_with(workflow_, step, [&](Json& with) {
      visit_paths(step.uses, with, [&](const std::string& key, PathRole role, Json& path) {
        const auto name = path.get<std::string>();
        const fs::path place = local_place(base_, name);
        if (key == "start_from" && is_of_pytorch(name)) {
          warn_at(step, "with." + key,
                  "with." + key + " of step '" + step.name + "' is " + name +
                      ", which only PyTorch reads; python3 -m dlflow.torch.weights " + name +
                      " -o NET.safetensors writes a file for " + key);
        }
        std::error_code none;
        if (role != PathRole::Outside || place.empty() || fs::exists(place, none)) return;
        warn_at(step, "with." + key,
                "with." + key + " of step '" + step.name + "' is " + name +
                    ", which does not exist; it must exist before the step runs, or name "
                    "the output of a step: ${{ steps.NAME.outputs.path }}");
      });
    });
  }

  void warn_unless_there(const Step& step, const std::string& key, const fs::path& place,
                         const std::string& advice) {
    std::error_code none;
    if (!fs::exists(place, none)) warn(step, key, ": there is no " + place.string() + advice);
  }

  /// Warns of environments of packages, and local files to stage, that do not exist (yet).
  void add_missing_files(const Step& step) {
    for (const char* const key : {"venv", "uv", "pixi", "lock"}) {
      if (!step.tools.contains(key)) continue;
      warn_unless_there(step, "environment", base_ / step.tools.at(key).get<std::string>(),
                        std::string(" for '") + key + "'; it must exist before the step runs");
    }
    if (!copies_sources(step.uses)) return;
    const Json with = step.with.evaluate_known({.params = &workflow_.params});
    for (const Json& source : with.value(find_step_kind(step.uses)->sources, Json::array())) {
      const bool is_given = source.is_object() && is_known(source);
      const auto file = is_given ? parse_file_url(source.value("url", "")) : std::nullopt;
      if (!file) continue;
      warn_unless_there(step, "with.sources", file->path,
                        "; correct the URL, or put it there before the step runs");
    }
  }

  const Workflow& workflow_;
  const Profile& profile_;
  Diagnostics& warnings_;
  fs::path base_;
};

/// Returns 0 if the number depends on another step.
int num_ranks(const Workflow& workflow, const Step& step) {
  const Json asked = step.resources.evaluate_known({.params = &workflow.params});
  const auto ranks = asked.is_object() ? asked.find("ranks") : asked.end();
  return ranks != asked.end() && ranks->is_number_integer() ? ranks->get<int>() : 0;
}

/// Scripts that a step names but does not list in its inputs, so that it would not find them.
Diagnostics warnings_of_files(const Workflow& workflow) {
  Diagnostics warnings;
  const auto base = fs::absolute(workflow.file).parent_path();
  for (const Step& step : workflow.steps) {
    for (const auto& [file, reader] : unlisted_files(step, base)) {
      const fs::path place = (base / file).lexically_normal();
      const std::string below = place.lexically_relative(base).string();
      const std::string input = below.starts_with("../") ? "{path: " + place.string() + "}" : below;
      warnings.push_back({workflow.file, step.location_of("run"),
                          "step '" + step.name + "' " +
                              (reader.empty() ? "names " : "runs " + reader + ", which reads ") +
                              file +
                              ", which is not among its inputs: it is not copied into the run, and "
                              "a change to it does not rerun the step; write inputs: [" +
                              input + "]"});
    }
  }
  return warnings;
}

constexpr const char* kWithoutMpi = "TCP and shared memory";

}  // namespace

std::string meeting_of(const Workflow& workflow, const Step& step, const Profile& profile) {
  const auto here = program_here(step, profile);
  if (!here || is_batch_system(profile.scheduler) || num_ranks(workflow, step) < 2) return "";
  if (!loading_problem_of(here->file, here->environment).empty()) return "";
  const std::string& launcher = profile.launcher.program;
  if (!find_program(launcher, environment_variable("PATH"))) {
    if (launcher != "mpirun") return "";
    return std::string(kWithoutMpi) + ": there is no mpirun in PATH";
  }
  const MpiName mpi = mpi_of_launcher(output_of_tool({launcher, "--version"}));
  if (mpi.empty()) return "";
  const MpiInterface& interface = mpi.starts_with("Open MPI") ? kOpenMpi : kMpich;
  const std::string library = first_found(interface.libraries, here->file, here->environment);
  if (library.empty()) {
    return std::string(kWithoutMpi) + ": no " + interface.libraries.front() + " of " + mpi +
           " is found";
  }
  if (!fs::exists(here->file.parent_path().parent_path() / "lib/dlflow" / interface.plugin)) {
    return std::string(kWithoutMpi) + ": there is no plug-in " + interface.plugin + " for " + mpi;
  }
  return mpi + " (" + library + "), plug-in " + interface.plugin;
}

Diagnostics warnings_of_programs(const Workflow& workflow) {
  Diagnostics warnings = warnings_of_files(workflow);
  for (Diagnostic& doubt : warnings_of_commands(workflow)) warnings.push_back(std::move(doubt));
  return warnings;
}

Diagnostics warnings_of(const Workflow& workflow, const Profile& profile) {
  Diagnostics warnings = warnings_of_programs(workflow);
  StepWarnings of_step(workflow, profile, warnings);
  for (const Step& step : workflow.steps) of_step.add_all(step);
  return in_order(std::move(warnings));
}

std::string warning_lines(const Diagnostics& warnings) {
  std::string text;
  for (const Diagnostic& warning : warnings) {
    text += to_string(warning, "warning") + "\n";
  }
  return escaped_lines(text);
}

}  // namespace dlflow
