#include "engine/model/workflow.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace dlflow {

Location Step::location_of(const std::string& key) const {
  const auto found = locations.find(key);
  return found == locations.end() ? location : found->second;
}

std::string kind_name(const Step& step) { return step.uses.empty() ? "run" : step.uses; }

Json params_as_written(const Workflow& workflow) {
  Json params = workflow.params;
  for (const auto& [name, text] : workflow.written) params[name] = text;
  return params;
}

std::vector<std::string> settings_of(const Json& params,
                                     const std::map<std::string, std::string>& written) {
  std::vector<std::string> settings;
  for (const auto& [name, value] : params.items()) {
    const auto text = written.find(name);
    settings.push_back(name + "=" +
                       (text == written.end() ? value.dump(-1, ' ', true) : text->second));
  }
  return settings;
}

void each_known_with(const Workflow& workflow, const Step& step,
                     const std::function<void(Json& with)>& visit) {
  Context known{.params = &workflow.params};
  const bool differ = step.with.has_references() && !has_open_axis(step.matrix);
  for (const Json& element : differ ? matrix_elements(step.matrix) : std::vector<Json>(1)) {
    if (differ) known.matrix = &element;
    Json with = step.with.evaluate_known(known);
    visit(with);
  }
}

std::vector<std::string> step_names(const Workflow& workflow) {
  std::vector<std::string> names;
  for (const Step& step : workflow.steps) names.push_back(step.name);
  return names;
}

std::string_view name(Notifications::Event event) {
  switch (event) {
    case Notifications::Event::End:
      return "end";
    case Notifications::Event::Failure:
      return "failure";
    case Notifications::Event::NoProgress:
      return "no-progress";
  }
  DLFLOW_CHECK(false);
}

std::string environment_name(std::string_view prefix, std::string_view key) {
  std::string result(prefix);
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    result += std::isalnum(byte) != 0 ? char(std::toupper(byte)) : '_';
  }
  return result;
}

std::chrono::milliseconds lead_of(const std::optional<CheckpointPolicy>& policy,
                                  std::chrono::milliseconds walltime) {
  using std::chrono::milliseconds;
  const bool is_given = policy && policy->lead.count() > 0;
  const milliseconds lead = is_given ? policy->lead : std::chrono::seconds(60);
  if (walltime.count() == 0) return lead;
  return std::min(lead, walltime / (is_given ? 2 : 4));
}

std::string folder_of_pattern(std::string_view newer) {
  const std::string_view folder = newer.substr(0, newer.find('/'));
  const bool is_name = folder.size() < newer.size() && folder.find_first_of("*?[\\") == folder.npos;
  return is_name ? std::string(folder) : "";
}

}  // namespace dlflow
