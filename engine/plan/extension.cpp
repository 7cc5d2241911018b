#include "engine/plan/extension.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/expression_functions.h"
#include "engine/model/forms.h"
#include "engine/model/parse.h"
#include "engine/plan/changes.h"
#include "engine/plan/layout.h"
#include "engine/plan/places.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExample = R"(["a", "b"])";

[[noreturn]] void refuse(const std::string& what, const std::string& problem) {
  throw Error(Errc::InvalidInput, what + " " + problem);
}

std::string kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a mapping";
  if (value.is_string()) return "a string";
  return value.is_boolean() ? "a boolean" : "a number";
}

void check_text(const std::string& text, const std::string& what) {
  if (text.find('\0') == std::string::npos) return;
  refuse(what, "holds a string with a zero byte, which no program can be given");
}

void check_mapping(const Json& first, const Json& value, const std::string& what) {
  if (value.empty()) refuse(what, "holds an empty mapping");
  for (const auto& [key, inner] : value.items()) {
    if (!kNameForm.accepts(key)) {
      refuse(what, "holds a mapping with the key '" + escaped(key) + "', which is not " +
                       std::string(kNameForm.what));
    }
    if (inner.is_string()) check_text(inner.get_ref<const std::string&>(), what);
    if (first.contains(key) && first.size() == value.size()) continue;
    refuse(what, "holds mappings with different keys; give all the same keys");
  }
}

void check_value(const Json& first, const Json& value, size_t place, const std::string& what) {
  if (value.is_null() || value.is_array()) {
    refuse(what, "holds " + kind_of(value) + " as value " + std::to_string(place + 1) +
                     "; write strings, numbers, booleans or mappings");
  }
  if (value.is_object() != first.is_object()) {
    refuse(what,
           "holds " + kind_of(first) + " and " + kind_of(value) + "; write only mappings, or none");
  }
  if (value.is_string()) check_text(value.get_ref<const std::string&>(), what);
  if (value.is_object()) check_mapping(first, value, what);
}

/// Refuses two mappings with the same name, which users could not tell apart.
void check_names(const AxisValues& values, const std::string& what) {
  std::set<std::string> names;
  for (const Json& value : values) {
    if (!value.is_object() || !value.contains(kElementName)) continue;
    const std::string name = shown_value(value.at(kElementName));
    if (!names.insert(name).second) {
      refuse(what, "holds two values that are called '" + escaped(name) + "'; rename one");
    }
  }
}

/// Reads the file that `output` names. Throws if it changed after its step had ended.
std::string text_of_output(const Json& output, const std::string& what) {
  const fs::path file = output.at("value").get<std::string>();
  std::string text = read_list(file, what);
  const std::string known = output.value("sha256", "");
  if (!known.empty() && sha256_hex(text) != known) {
    throw Error(Errc::InvalidInput,
                file.string() + " was changed after its step had ended; run that step again");
  }
  return text;
}

fs::path extension_file(const fs::path& run_directory, int number) {
  return run_directory / "extensions" / (std::to_string(number) + ".json");
}

Json to_json(const Extension& extension) {
  Json lists = Json::object();
  for (const auto& [output, values] : extension.lists) lists[output] = values;
  return {{"step", extension.step}, {"lists", std::move(lists)}, {"hashes", extension.hashes}};
}

Extension read_extension(const fs::path& file, int number) {
  const Json json = read_json_file(file);
  try {
    Extension extension{.number = number, .step = json.at("step").get<std::string>()};
    for (const auto& [output, values] : json.at("lists").items()) {
      extension.lists[output] = values_of_list(values, "the list '" + output + "'");
    }
    json.at("hashes").get_to(extension.hashes);
    return extension;
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, file.string() + " is damaged: " + reason_of(error));
  } catch (const Error& error) {
    throw Error(Errc::Corrupt, file.string() + " is damaged: " + error.what());
  }
}

/// Replaces an earlier extension of the same step.
void add_extension(std::vector<Extension>& extensions, Extension added) {
  std::erase_if(extensions, [&](const Extension& other) { return other.step == added.step; });
  extensions.push_back(std::move(added));
}

/// Copies the decisions about jobs of `from` to the jobs of the same names.
void take_decisions(const Plan& from, Plan& to) {
  std::map<std::string_view, uint32_t> numbers;
  for (uint32_t job = 0; job < to.jobs.size(); ++job) numbers[to.jobs[job].name] = job;
  const auto number_of = [&](uint32_t job) -> std::optional<uint32_t> {
    const auto found = numbers.find(from.jobs[job].name);
    if (found == numbers.end()) return std::nullopt;
    return found->second;
  };
  for (uint32_t job = 0; job < from.jobs.size(); ++job) {
    const auto number = number_of(job);
    if (!number || is_open(from, job) || is_open(to, *number)) continue;
    to.jobs[*number].action = from.jobs[job].action;
    to.jobs[*number].cause = from.jobs[job].cause;
  }
  for (const auto& [job, result] : from.reused) {
    if (const auto number = number_of(job)) to.reused.emplace(*number, result);
  }
  for (const uint32_t job : from.skipped) {
    if (const auto number = number_of(job)) to.skipped.insert(*number);
  }
  for (const uint32_t job : from.failed) {
    if (const auto number = number_of(job)) to.failed.insert(*number);
  }
}

}  // namespace

std::set<std::string> listed_outputs(const Workflow& workflow, std::string_view step) {
  std::set<std::string> outputs;
  for (const Step& other : workflow.steps) {
    for (const MatrixAxis& axis : other.matrix.axes) {
      if (axis.source && axis.source->step == step) outputs.insert(axis.source->output);
    }
  }
  return outputs;
}

AxisValues values_of_list(const Json& list, const std::string& what) {
  if (!list.is_array()) {
    refuse(what, "is " + kind_of(list) + ", but an axis takes its values from it; write a list: " +
                     std::string(kExample));
  }
  if (list.empty()) refuse(what, "is an empty list, which makes no element; write one value");
  if (list.size() > kMaxListed) {
    refuse(what, "lists " + format_count(list.size()) + " values; an axis takes " +
                     format_count(kMaxListed) + " at most");
  }
  AxisValues values;
  std::set<Json> seen;
  for (const Json& value : list) {
    check_value(list.front(), value, values.size(), what);
    if (!seen.insert(value).second) refuse(what, "holds " + shown_value(value) + " twice");
    values.push_back(value);
  }
  check_names(values, what);
  return values;
}

AxisValues values_in_text(std::string_view text, const std::string& what) {
  const Json list = parse_json(text, kForeignJson);
  if (list.is_discarded()) {
    refuse(what, "is not JSON, but an axis takes its values from it; write a list: " +
                     std::string(kExample));
  }
  return values_of_list(list, what);
}

std::string read_list(const fs::path& file, const std::string& what) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) {
    refuse(what,
           "is not a file that holds a list; write a JSON list into it: " + std::string(kExample));
  }
  return read_file(file, kForeignJson.max_bytes);
}

bool leaves_lists(const Plan& plan, uint32_t step) {
  const std::string& name = plan.workflow.steps[step].name;
  for (uint32_t other = 0; other < plan.steps.size(); ++other) {
    const Matrix& matrix = plan.workflow.steps[other].matrix;
    if (matrix.empty() || !plan.steps[other].planned) continue;
    if (takes_list_of(matrix, name)) return true;
  }
  return false;
}

bool has_list_of(const Plan& plan, const std::string& step) {
  return std::ranges::find(plan.extensions, step, &Extension::step) != plan.extensions.end();
}

std::optional<Extension> extension_for(const Plan& plan, const ParentResult& result) {
  const int newest = plan.extensions.empty() ? 0 : plan.extensions.back().number;
  Extension wanted{.number = newest + 1, .step = result.step};
  const std::set<std::string> outputs = listed_outputs(plan.workflow, result.step);
  for (const std::string& name : outputs) {
    const auto output = result.outputs.find(name);
    if (output == result.outputs.end()) {
      refuse("output '" + name + "'", "is missing from the results of step '" + result.step + "'");
    }
    wanted.hashes[name] = output->value("sha256", "");
  }
  const auto known = std::ranges::find(plan.extensions, result.step, &Extension::step);
  // Compare hashes first: the list was read before, and its file may be gone by now.
  if (known != plan.extensions.end() && known->hashes == wanted.hashes) return std::nullopt;
  for (const std::string& name : outputs) {
    const std::string what = "output '" + name + "'";
    const Json& output = result.outputs.at(name);
    const Json& value = output.at("value");
    wanted.lists[name] = value.is_string() ? values_in_text(text_of_output(output, what), what)
                                           : values_of_list(value, what);
  }
  if (known != plan.extensions.end() && known->lists == wanted.lists) return std::nullopt;
  return wanted;
}

int newest_extension(const fs::path& run_directory) {
  int number = 0;
  std::error_code none;
  while (fs::exists(extension_file(run_directory, number + 1), none)) ++number;
  return number;
}

std::vector<Extension> read_extensions(const fs::path& run_directory) {
  std::vector<Extension> extensions;
  const int newest = newest_extension(run_directory);
  for (int number = 1; number <= newest; ++number) {
    add_extension(extensions, read_extension(extension_file(run_directory, number), number));
  }
  return extensions;
}

void write_extension(const fs::path& run_directory, const Extension& extension) {
  const fs::path file = extension_file(run_directory, extension.number);
  if (!create_once(file, to_json(extension).dump() + "\n") &&
      read_extension(file, extension.number) != extension) {
    throw Error(Errc::Unavailable, "another dlflow process is continuing " +
                                       run_directory.string() + " now; try again");
  }
  sync_directory(file.parent_path());
  sync_directory(run_directory);  // the folder extensions/ may be new
}

void take_extensions(Plan& plan, std::vector<Extension> extensions) {
  plan.extensions = std::move(extensions);
  for (Step& step : plan.workflow.steps) {
    for (MatrixAxis& axis : step.matrix.axes) {
      if (!axis.source) continue;
      for (const Extension& extension : plan.extensions) {
        const auto list = extension.lists.find(axis.source->output);
        if (extension.step != axis.source->step || list == extension.lists.end()) continue;
        axis.values = list->second;
      }
    }
  }
}

Plan extended(const Plan& plan, Extension extension) {
  Plan next = plan;
  next.jobs.clear();
  next.changed.clear();
  next.reused.clear();
  next.skipped.clear();
  next.failed.clear();
  for (PlannedStep& planned : next.steps) planned.elements.reset();
  std::vector<Extension> extensions = plan.extensions;
  add_extension(extensions, std::move(extension));
  take_extensions(next, std::move(extensions));
  lay_out(next);
  if (const size_t most = ParseLimits().max_elements; next.jobs.size() > most) {
    throw Error(Errc::InvalidInput, "the lists make " + format_count(next.jobs.size()) +
                                        " jobs; a run may have " + format_count(most));
  }
  decide(next, [](uint32_t) { return std::nullopt; });
  take_decisions(plan, next);
  place_jobs(next);
  apply_changes(next);
  check_files_of_elements(next);
  return next;
}

bool is_open(const Plan& plan, uint32_t job) { return plan.steps[plan.jobs[job].step].open; }

namespace {

/// Adds the steps that have yet to list the values of the axes.
void add_sources(const Matrix& matrix, std::set<std::string>& steps) {
  for (const MatrixAxis& axis : matrix.axes) {
    if (axis.is_open()) steps.insert("`" + axis.source->step + "`");
  }
}

std::string as_many_as(const std::set<std::string>& steps) {
  return "as many as " + join(std::vector<std::string>(steps.begin(), steps.end()), " and ") +
         (steps.size() == 1 ? " lists" : " list");
}

}  // namespace

std::string as_listed(const Matrix& matrix) {
  std::set<std::string> steps;
  add_sources(matrix, steps);
  return as_many_as(steps);
}

std::string count_of_jobs(const Plan& plan, bool with_reused) {
  size_t known = 0;
  std::set<std::string> steps;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (is_open(plan, job)) {
      add_sources(plan.workflow.steps[plan.jobs[job].step].matrix, steps);
    } else {
      known += with_reused || plan.jobs[job].action != Action::Reuse;
    }
  }
  return format_count(known) + (known == 1 ? " job" : " jobs") +
         (steps.empty() ? "" : " and " + as_many_as(steps));
}

}  // namespace dlflow
