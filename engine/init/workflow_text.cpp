#include "engine/init/workflow_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace dlflow {
namespace fs = std::filesystem;

std::string as_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    name += good ? c : '-';
  }
  const bool starts =
      !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  std::string lower = name;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 9> kNoText = {"null", "true", "false", "yes", "no",
                                                       "on",   "off",  "y",     "n"};
  const bool is_text = std::ranges::find(kNoText, lower) == kNoText.end();
  return starts && is_text ? name : "w-" + name;
}

std::string yaml_quote(const std::string& text) { return Json(text).dump(); }

std::string yaml_word(const std::string& word) {
  return as_name(word) == word ? word : yaml_quote(word);
}

std::string head_of_workflow(const std::string& name) {
  return "# Written by `dlflow init`. `dlflow schema` and docs/user/workflow-format.md have every "
         "key.\nname: " +
         name + "\n";
}

std::string yaml_inputs(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return "";
  std::string text = "    inputs:  # what it reads; a change of it runs the step again\n";
  for (const std::string& input : inputs) {
    const std::string quoted = yaml_quote(input);
    text += "      - " + (input.starts_with("/") ? "{path: " + quoted + "}" : quoted) + "\n";
  }
  return text;
}

std::string named_by_workflow(const fs::path& path, const fs::path& file) {
  fs::path named = fs::absolute(path).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "digits/"
  const fs::path real = fs::weakly_canonical(named.parent_path()) / named.filename();
  const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path());
  const fs::path below = real.lexically_relative(folder);
  const bool is_below = !below.empty() && below != "." && *below.begin() != "..";
  return (is_below ? below : named).string();
}

std::string script_of_workflow(const InitRequest& request) {
  const std::string path = named_by_workflow(request.source, request.workflow);
  if (!path.starts_with("/")) return path;
  const fs::path beside = request.source.parent_path() / fs::path(request.name + ".yaml");
  throw Error(Errc::InvalidInput,
              request.source.string() + " is outside of the folder of " +
                  request.workflow.string() +
                  ", and a workflow reads what is below its own; write it there: dlflow init " +
                  shell_quote(request.source.string()) + " -o " + shell_quote(beside.string()));
}

}  // namespace dlflow
