#include "engine/plan/surroundings.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

constexpr std::string_view kRulesOfSums = "DLFLOW_COLLECTIVES";

/// Variables, or prefixes of their names, that choose instructions, precision, threads or the order
/// of sums in training libraries. DLFLOW_COLLECTIVES in `environment:` counts by the content of its
/// file, see files.cpp.
constexpr std::array<std::string_view, 12> kNumeric = {
    "ONEDNN_",        "DNNL_",     "OMP_NUM_THREADS", "OMP_THREAD_LIMIT",     "OMP_DYNAMIC",
    "GLIBC_TUNABLES", "CUBLAS",    "CUDNN_",          "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO",
    "NCCL_PROTO",     kRulesOfSums};

constexpr std::array<std::string_view, 4> kServers = {"AWS_ENDPOINT_URL", "AWS_PROFILE",
                                                      "HF_ENDPOINT", "RCLONE_"};

bool begins_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_numeric(std::string_view name) { return name != kRulesOfSums && chooses_numerics(name); }

/// Whether the variable decides which server, or which account on it, an address means.
bool names_a_server(std::string_view name) { return begins_with_any(name, kServers); }

bool mentions_numeric(std::string_view text) {
  return std::ranges::any_of(
      kNumeric, [&](std::string_view prefix) { return text.find(prefix) != text.npos; });
}

void add(Json& surroundings, const char* key, Json value) {
  if (!value.empty()) surroundings[key] = std::move(value);
}

/// The launcher may pass on variables or set them: `-x NAME=value`.
std::vector<std::string> launcher_arguments(const Profile& profile, int ranks) {
  return ranks > 1 ? profile.launcher.arguments : std::vector<std::string>();
}

/// The call of the container runtime, which may pass on variables or set them.
void add_call(Json& surroundings, const ContainerSettings& container) {
  add(surroundings, "arguments", container.arguments);
  add(surroundings, "command", container.command);
}

Json seen_by_command(const Profile& profile, bool in_container, int ranks) {
  Json surroundings = Json::object();
  if (in_container) {
    add(surroundings, "binds", profile.container.binds);
    add_call(surroundings, profile.container);
  }
  add(surroundings, "environment", profile.environment);
  add(surroundings, "setup", profile.setup);
  add(surroundings, "launcher", launcher_arguments(profile, ranks));
  return surroundings;
}

/// The profile's variables for which `counts` is true and that the step does not set itself.
template <class Counts>
std::map<std::string, std::string> variables(const Profile& profile, const Step& step,
                                             const Counts& counts) {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : profile.environment) {
    if (counts(name) && !step.environment.source().contains(name)) found.emplace(name, value);
  }
  return found;
}

Json servers(const Profile& profile, const Step& step) {
  Json surroundings = Json::object();
  add(surroundings, "environment", variables(profile, step, names_a_server));
  return surroundings;
}

Json numerics(const Profile& profile, const Step& step, int ranks) {
  const bool passes = std::ranges::any_of(launcher_arguments(profile, ranks), mentions_numeric);
  const ContainerSettings& container = profile.container;
  const bool call_passes = std::ranges::any_of(container.arguments, mentions_numeric) ||
                           std::ranges::any_of(container.command, mentions_numeric);
  std::vector<std::string> lines;
  std::ranges::copy_if(profile.setup, std::back_inserter(lines), mentions_numeric);
  Json surroundings = Json::object();
  add(surroundings, "environment", variables(profile, step, is_numeric));
  add(surroundings, "setup", lines);
  if (passes) add(surroundings, "launcher", profile.launcher.arguments);
  if (!step.image.empty() && call_passes) add_call(surroundings, container);
  return surroundings;
}

}  // namespace

bool chooses_numerics(std::string_view name) { return begins_with_any(name, kNumeric); }

std::vector<std::string> inherited_by(const Profile& profile, const Step& step) {
  return inherited_by(profile, std::span(&step, 1));
}

std::vector<std::string> inherited_by(const Profile& profile, std::span<const Step> steps) {
  std::vector<std::string> names = profile.inherit;
  for (const Step& step : steps) {
    names.insert(names.end(), step.inherit.begin(), step.inherit.end());
  }
  return names;
}

std::map<std::string, std::string> inherited_servers(const Profile& profile, const Step& step,
                                                     std::map<std::string, std::string> variables) {
  if (!copies_sources(step.uses)) return {};
  std::erase_if(variables, [&](const auto& variable) {
    const auto& [name, value] = variable;
    return !names_a_server(name) || profile.environment.contains(name) ||
           step.environment.source().contains(name);
  });
  return variables;
}

Json surroundings_of(const Profile& profile, const Step& step, int ranks) {
  if (step.uses.empty()) return seen_by_command(profile, !step.image.empty(), ranks);
  if (copies_sources(step.uses)) return servers(profile, step);
  const StepKind* kind = find_step_kind(step.uses);
  const bool computes = kind != nullptr && !kind->program.empty();
  return computes ? numerics(profile, step, ranks) : Json::object();
}

}  // namespace dlflow
