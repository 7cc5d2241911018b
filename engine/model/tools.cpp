#include "engine/model/tools.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// A tool that installs packages.
struct Tool {
  const char* key;
  const char* lock;  ///< the lock file in its folder; empty: it keeps none
  std::string (*activation)(const std::string& place);
};

std::string source_of_venv(const std::string& folder) {
  const std::string script = shell_quote(folder + "/bin/activate");
  return "if [ -r " + script + " ]; then . " + script + "; else echo " +
         shell_quote("error: there is no virtual environment in " + folder +
                     " on this node; `python3 -m venv " + folder + "` makes one") +
         " >&2; exit 1; fi";
}

std::string conda(const std::string& place) {
  return "eval \"$(conda shell.posix hook)\" && conda activate " + shell_quote(place) +
         " || { echo " + shell_quote("error: conda cannot activate " + place + " here") +
         " >&2; exit 1; }";
}

std::string uv(const std::string& folder) { return source_of_venv(folder + "/.venv"); }

std::string pixi(const std::string& folder) {
  return "dlflow_hook=$(pixi shell-hook --shell bash --frozen --manifest-path " +
         shell_quote(folder) + ") && eval \"$dlflow_hook\" || { echo " +
         shell_quote("error: pixi cannot activate " + folder + " here") + " >&2; exit 1; }";
}

std::string spack(const std::string& place) {
  return "command -v spack >/dev/null || . \"${SPACK_ROOT:?}/share/spack/setup-env.sh\"; "
         "dlflow_hook=$(spack env activate --sh " +
         shell_quote(place) + ") && eval \"$dlflow_hook\" || { echo " +
         shell_quote("error: Spack cannot activate " + place + " here") + " >&2; exit 1; }";
}

constexpr std::array kTools = {
    Tool{"venv", "", source_of_venv}, Tool{"conda", "conda-meta/history", conda},
    Tool{"uv", "uv.lock", uv}, Tool{"pixi", "pixi.lock", pixi}, Tool{"spack", "spack.lock", spack}};

const Tool* tool_of(const Json& tools) {
  const auto found =
      std::ranges::find_if(kTools, [&](const Tool& tool) { return tools.contains(tool.key); });
  return found == kTools.end() ? nullptr : &*found;
}

/// Returns a name unchanged, and a folder as a path that is valid from anywhere.
std::string place_of(const Tool& tool, const Json& tools, const fs::path& base) {
  auto given = tools.at(tool.key).get<std::string>();
  const bool may_be_a_name =
      std::string_view(tool.key) == "conda" || std::string_view(tool.key) == "spack";
  if (may_be_a_name && given.find('/') == std::string::npos) return given;
  std::string place = (base / given).lexically_normal().string();
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  return place;
}

/// Each file is first tried in a subshell: a removed package leaves its file in profile.d, which
/// reads missing files and so ends the shell.
std::string load_modules(const Json& names) {
  std::string line =
      "command -v module >/dev/null || for f in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh "
      "\"${MODULESHOME:-/usr/share/modules}/init/sh\"; do if [ -r \"$f\" ] && "
      "(. \"$f\"; command -v module) >/dev/null 2>&1; then . \"$f\"; break; fi; done; module load";
  std::string list;
  for (const Json& name : names) list += " " + shell_quote(name.get<std::string>());
  return line + list + " || { echo " + shell_quote("error: cannot load the modules" + list) +
         " >&2; exit 1; }";
}

}  // namespace

std::string problem_of_tools(const Json& tools) {
  std::vector<std::string> given;
  for (const Tool& tool : kTools) {
    if (tools.contains(tool.key)) given.emplace_back(tool.key);
  }
  if (given.size() > 1) return " has both " + given[0] + " and " + given[1] + "; choose one";
  if (given.empty() && !tools.contains("modules")) {
    return " loads nothing; name modules, venv, conda, uv, pixi or spack";
  }
  return "";
}

std::vector<std::string> tool_lines(const Json& tools, const fs::path& base) {
  std::vector<std::string> lines;
  if (tools.contains("modules")) lines.push_back(load_modules(tools.at("modules")));
  if (const Tool* const tool = tool_of(tools)) {
    lines.push_back(tool->activation(place_of(*tool, tools, base)));
  }
  return lines;
}

std::vector<ToolCheck> tool_checks(const Json& tools, const fs::path& base) {
  std::vector<ToolCheck> checks;
  for (const Json& name : tools.value("modules", Json::array())) {
    checks.push_back({"module " + name.get<std::string>(), load_modules(Json::array({name}))});
  }
  const Tool* const tool = tool_of(tools);
  if (tool == nullptr) return checks;
  const std::string place = place_of(*tool, tools, base);
  checks.push_back({std::string(tool->key) + " " + place, tool->activation(place)});
  const std::string_view key = tool->key;
  if (key != "venv" && key != "uv") return checks;
  const std::string folder = key == "uv" ? place + "/.venv" : place;
  checks.push_back({"Python of " + folder,
                    "[ \"$VIRTUAL_ENV\" -ef " + shell_quote(folder) +
                        " ] || { echo \"error: it was made as $VIRTUAL_ENV and moved; create it "
                        "again\" >&2; exit 1; }; " +
                        shell_quote(folder + "/bin/python3") +
                        " -V || { echo 'error: it does not start on this node' >&2; exit 1; }"});
  return checks;
}

bool brings_python(const Json& tools) {
  const Tool* const tool = tool_of(tools);
  return tool != nullptr && std::string_view(tool->key) != "spack";
}

fs::path venv_beside_lock(const Json& tools, const fs::path& base) {
  const Tool* const tool = tool_of(tools);
  if (tool == nullptr) return {};
  const std::string_view key = tool->key;
  if (key == "uv") return fs::path(place_of(*tool, tools, base)) / ".venv";
  if (key != "venv" || !tools.contains("lock")) return {};
  return place_of(*tool, tools, base);
}

fs::path lock_of_tools(const Json& tools, const fs::path& base) {
  if (tools.contains("lock")) {
    return (base / tools.at("lock").get<std::string>()).lexically_normal();
  }
  const Tool* const tool = tool_of(tools);
  if (tool == nullptr) return {};
  const fs::path place = place_of(*tool, tools, base);
  if (!place.is_absolute()) return {};
  return *tool->lock == '\0' ? place : place / tool->lock;
}

}  // namespace dlflow
