#include "engine/cli/release_image.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>

#include "base/process.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/container/runtime.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/loading.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path image_file() {
  utsname system{};
  ::uname(&system);
  return this_program().parent_path().parent_path() / "share/dlflow" /
         ("dlflow-" DLFLOW_VERSION "-linux-" + std::string(system.machine) + ".oci.tar");
}

bool has_image() {
  std::error_code none;
  return fs::is_regular_file(image_file(), none);
}

/// pyxis and docker must be set up by an administrator.
bool is_rootless(const ContainerRuntime& runtime) {
  return runtime.name != "docker" && !runtime.starts_ranks;
}

/// The profile's runtime, otherwise the first in PATH. Empty: none.
std::string runtime_for(const Profile& profile) {
  if (profile.container.runtime != "none") return profile.container.runtime;
  for (const ContainerRuntime& runtime : runtimes()) {
    const bool there = is_rootless(runtime) &&
                       find_program(std::string(runtime.program), environment_variable("PATH"));
    if (there) return std::string(runtime.name);
  }
  return "";
}

/// The requirements that are missing to run the image: a file to fetch, a runtime to install.
std::string remedy(const Profile& profile) {
  std::vector<std::string> missing;
  if (!has_image()) {
    missing.push_back("put the release's " + image_file().filename().string() + " into " +
                      image_file().parent_path().string());
  }
  if (runtime_for(profile).empty()) {
    std::vector<std::string> names;
    for (const ContainerRuntime& runtime : runtimes()) {
      if (is_rootless(runtime)) names.emplace_back(runtime.name);
    }
    missing.push_back("install one of " + join(names, ", "));
  }
  return join(missing, " and ");
}

/// The image does not contain CUDA libraries.
bool needs_gpu(const Step& step, const StepKind& kind) {
  return std::ranges::any_of(kind.demands, [&](const Demand& demand) {
    return step.with.source().value(demand.key, Json()) == demand.value;
  });
}

/// Why this machine cannot load the program of `step`; empty in the cases of loading_problem_of().
std::string problem_outside(const Step& step, const Profile& profile) {
  const auto here = program_here(step, profile);
  if (!here) return "";
  std::error_code none;
  const std::string problem = fs::exists(here->file, none)
                                  ? loading_problem_of(here->file, here->environment)
                                  : here->file.string() +
                                        " is not there; the release's tarball has it, and "
                                        "`./dev build` makes it";
  if (problem.empty()) return "";
  return here->file.filename().string() + " of step '" + step.name +
         "' cannot be loaded on this machine: " + problem;
}

}  // namespace

std::string loading_problem_of(const Step& step, const Profile& profile) {
  std::string problem = problem_outside(step, profile);
  if (problem.empty() || needs_gpu(step, *find_step_kind(step.uses))) return problem;
  const std::string missing = remedy(profile);
  return missing.empty() ? "" : problem + "; or, to run it in the release's image, " + missing;
}

std::vector<std::string> use_release_image(Workflow& workflow, Profile& profile) {
  const std::string runtime = release_runtime(profile);
  const bool has_images =
      std::ranges::any_of(workflow.steps, [](const Step& step) { return !step.image.empty(); });
  // A profile without containers must still refuse the images of steps.
  if (runtime.empty() || (has_images && profile.container.runtime == "none")) return {};
  std::vector<std::string> lines;
  for (Step& step : workflow.steps) {
    const std::string problem = problem_outside(step, profile);
    if (problem.empty() || needs_gpu(step, *find_step_kind(step.uses))) continue;
    if (lines.empty()) {
      workflow.images.push_back(
          {kReleaseImage, "oci:" + image_file().string(), {}, step.location_of("uses"), Json()});
    }
    step.image = kReleaseImage;
    lines.push_back(step.name + " runs in the release's image with " + runtime + ": " +
                    problem.substr(0, problem.rfind("; ")));
  }
  if (!lines.empty()) profile.container.runtime = runtime;
  return lines;
}

std::string release_runtime(const Profile& profile) {
  return has_image() ? runtime_for(profile) : "";
}

bool loads_programs(const Profile& profile) {
  return std::ranges::all_of(step_kinds(), [&](const StepKind& kind) {
    Step step;
    step.uses = kind.name;
    return problem_outside(step, profile).empty();
  });
}

}  // namespace dlflow
