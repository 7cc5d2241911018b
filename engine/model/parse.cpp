#include "engine/model/parse.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/expression_functions.h"
#include "engine/model/forms.h"
#include "engine/model/hints.h"
#include "engine/model/parse_step.h"
#include "engine/model/workflow_shape.h"
#include "engine/model/yaml.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// One `--set KEY=VALUE`.
struct GivenParam {
  std::string key;
  std::string text;     ///< as typed
  Json value;           ///< as YAML reads it
  std::string written;  ///< see YamlNode
};

/// The name of a workflow without `name:`.
std::string name_from(const fs::path& file) {
  std::string name = file.stem().string();
  for (char& c : name) {
    if (!kNameForm.accepts(std::string("_") + c)) c = '-';
  }
  const bool begins_well = !name.empty() && kNameForm.accepts(name.substr(0, 1));
  return begins_well ? name : "workflow" + (name.empty() ? "" : "-" + name);
}

class WorkflowReader {
 public:
  WorkflowReader(Mistakes& mistakes, const fs::path& file, const ParseLimits& limits)
      : mistakes_(mistakes), file_(file), limits_(limits) {
    names_.params = &workflow_.params;
    if (limits.check_files) names_.base = file.has_parent_path() ? file.parent_path() : ".";
  }

  /// Returns the workflow, which must not be used if there are mistakes.
  Workflow read(const YamlNode& root, const std::vector<std::string>& set) {
    if (root.kind != YamlNode::Kind::Map) {
      mistakes_.add(root.location, "a workflow is a mapping with the keys " +
                                       join(field_names(workflow_shape()), ", "));
      return {};
    }
    check_keys(root);
    read_name(root);
    read_params(root, set);
    read_images(root);
    read_track(root);
    read_notify(root);
    read_steps(root);
    return std::move(workflow_);
  }

 private:
  void check_keys(const YamlNode& root) {
    Checker(mistakes_, names_).check_keys(root, workflow_shape(), {"", "the workflow"});
    if (find_entry(root, "steps") == nullptr) {
      mistakes_.add(root.location, "missing key 'steps' in the workflow");
    }
  }

  std::optional<Json> value_of(const YamlNode& root, const std::string& key) {
    const YamlEntry* entry = find_entry(root, key);
    if (entry == nullptr) return std::nullopt;
    const Field& field = *find_field(workflow_shape(), key);
    return Checker(mistakes_, names_).check(*entry->value, field.shape, *field.scope, {key, ""});
  }

  void read_name(const YamlNode& root) {
    const std::string name_of_file = name_from(file_);
    if (find_entry(root, "name") == nullptr && !kNameForm.accepts(name_of_file)) {
      mistakes_.add(root.location, "the file's name is too long for a workflow name: " +
                                       kNameForm.advice(name_of_file) + "; give it a `name:`");
    }
    workflow_.name = value_of(root, "name").value_or(Json(name_of_file));
  }

  /// Replaces the value of parameter `key` if `set_` has it; the last one wins. If the workflow has
  /// a text there, the new value is the text as typed: tag=1.10 is not a number.
  void take_set(const std::string& key, std::optional<Json>& value, std::string& written) const {
    const auto found = std::find_if(set_.rbegin(), set_.rend(),
                                    [&key](const GivenParam& given) { return given.key == key; });
    if (found == set_.rend()) return;
    const bool to_text =
        value && value->is_string() && found->value.is_primitive() && !found->value.is_string();
    value = to_text ? Json(found->text) : found->value;
    written = to_text ? "" : found->written;
  }

  void read_params(const YamlNode& root, const std::vector<std::string>& set) {
    read_set(set);
    const YamlEntry* params = find_entry(root, "params");
    if (params != nullptr && params->value->kind != YamlNode::Kind::Map) {
      value_of(root, "params");  // adds the mistake
    } else if (params != nullptr) {
      const auto& entries = params->value->entries;
      for (const YamlEntry& entry : entries) names_.later_params.push_back(entry.key);
      for (const YamlEntry& entry : entries) read_param(entry);
    }
    std::vector<std::string> known = names_.wrong_params;
    for (const auto& [key, value] : workflow_.params.items()) known.push_back(key);
    for (const auto& [key, text, value, written] : set_) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string step = step_with_axis(root, key);
      mistakes_.add_elsewhere(
          "--set", "unknown parameter '" + key + "'" +
                       (!step.empty() ? "; '" + key + "' is an axis of the matrix of step '" +
                                            step + "'; change its values there"
                        : known.empty() ? "; the workflow has no params: add params: {" + key +
                                              ": …}, and ${{ params." + key + " }} where it is used"
                                        : mistakes_.advice_or_list(key, known)));
    }
  }

  /// The first step whose matrix has this axis; empty without one.
  static std::string step_with_axis(const YamlNode& root, const std::string& axis) {
    const YamlEntry* const steps = find_entry(root, "steps");
    for (const YamlEntry& step : (steps != nullptr ? *steps->value : root).entries) {
      const YamlEntry* const matrix = find_entry(*step.value, "matrix");
      if (matrix != nullptr && find_entry(*matrix->value, axis) != nullptr) return step.key;
    }
    return "";
  }

  void read_set(const std::vector<std::string>& set) {
    for (const std::string& item : set) {
      const size_t equals = item.find('=');
      if (equals == std::string::npos || equals == 0) {
        mistakes_.add_elsewhere("--set", "'" + item + "' is not of the form KEY=VALUE");
        continue;
      }
      Mistakes found("--set", std::string_view(item).substr(equals + 1));
      const std::string_view text = trim(found.text());
      const YamlPointer value = text.empty() ? to_yaml("", {})
                                : text == "null"
                                    ? to_yaml(nullptr, {})  // read_yaml() refuses null
                                    : read_yaml(found, {limits_.max_depth, limits_.max_nodes});
      for (const Diagnostic& mistake : found.take()) {
        mistakes_.add_elsewhere("--set", "'" + item + "': " + mistake.message);
      }
      if (!value) continue;
      set_.push_back({item.substr(0, equals), std::string(text), to_json(*value), value->written});
    }
  }

  void read_param(const YamlEntry& entry) {
    const Subject subject = {"params", ""};
    Checker checker(mistakes_, names_);
    if (entry.first_line > 0) return checker.report_repeated_key(entry, subject);
    if (!kNameForm.accepts(entry.key)) return checker.report_bad_name(entry, kNameForm, subject);
    report_same_variable(entry);
    auto value = checker.check(*entry.value, anything(), Scope::Params, subject.at(entry.key));
    std::erase(names_.later_params, entry.key);
    std::string written = entry.value->written;
    take_set(entry.key, value, written);
    if (value) {
      if (!written.empty()) workflow_.written[entry.key] = std::move(written);
      workflow_.params[entry.key] = std::move(*value);
    } else {
      names_.wrong_params.push_back(entry.key);
    }
  }

  /// Two names can map to one environment variable: a-b and a_b, lr and LR.
  void report_same_variable(const YamlEntry& entry) {
    const std::string variable = environment_name("DLFLOW_PARAM_", entry.key);
    const auto [first, is_new] = variables_.emplace(variable, entry.key);
    if (is_new) return;
    mistakes_.add(entry.location, "params '" + first->second + "' and '" + entry.key +
                                      "' would both be $" + variable + "; rename one");
  }

  void read_images(const YamlNode& root) {
    const YamlEntry* images = find_entry(root, "images");
    const auto value = value_of(root, "images");
    if (images == nullptr || images->value->kind != YamlNode::Kind::Map) return;
    for (const YamlEntry& entry : images->value->entries) {
      image_names_.push_back(entry.key);
      if (!value || entry.first_line > 0) continue;
      const Json& image = value->at(entry.key);
      workflow_.images.push_back({entry.key, image.at("from"), image.value("digest", Digest()),
                                  entry.location, image.value("build", Json())});
    }
  }

  void read_track(const YamlNode& root) {
    const auto value = value_of(root, "track");
    if (!value || !value->is_object()) return;
    Trackers& track = workflow_.track;
    track.tensorboard = value->value("tensorboard", false);
    track.openmetrics = value->value("openmetrics", "");
    for (const char* client : {"mlflow", "wandb", "aim", "comet_ml"}) {
      const std::string place = value->value(client, "");
      if (place.starts_with("http")) {
        track.mlflow = place;
      } else if (!place.empty()) {
        track.clients[client] = place;
      }
    }
  }

  void read_notify(const YamlNode& root) {
    const auto value = value_of(root, "notify");
    if (!value || !value->is_object()) return;
    Notifications& notify = workflow_.notify;
    using enum Notifications::Event;
    for (const Notifications::Event event : {End, Failure, NoProgress}) {
      const Json& on = value->at("on");
      if (std::find(on.begin(), on.end(), name(event)) != on.end()) notify.on.insert(event);
    }
    notify.command = value->value("command", std::vector<std::string>());
    const Json mail = value->value("mail", Json::array());
    for (const Json& address : mail.is_array() ? mail : Json::array({mail})) {
      notify.mail.push_back(address);
    }
    notify.webhook = value->value("webhook", "");
    notify.location = find_entry(root, "notify")->value->location;
    if (!notify.empty()) return;
    mistakes_.add(notify.location, "notify has no recipient; add command:, mail: or webhook:");
  }

  void read_steps(const YamlNode& root) {
    const YamlEntry* entry = find_entry(root, "steps");
    if (entry == nullptr) return;
    const YamlNode& node = *entry->value;
    if (node.kind != YamlNode::Kind::Map || node.entries.empty()) {
      const bool is_list = node.kind == YamlNode::Kind::List && !node.entries.empty();
      const YamlEntry* const first = is_list ? find_entry(*node.entries[0].value, "name") : nullptr;
      const std::string name = first != nullptr ? shown_value(first->value->scalar) : "";
      mistakes_.add(
          node.location,
          "steps must be a mapping: a name and a description for each step" +
              (name.empty() ? "" : "; write `" + name + ":` instead of `- name: " + name + "`"));
      return;
    }
    std::vector<ParsedStep> steps;
    StepSurroundings surroundings{names_, image_names_, {limits_.max_elements, 0}, {}};
    for (const YamlEntry& step : node.entries) surroundings.steps.push_back(step.key);
    Checker checker(mistakes_, names_);
    for (const YamlEntry& step : node.entries) {
      if (step.first_line > 0) {
        mistakes_.add(step.location, "a second step is called '" + step.key +
                                         "'; the first one is in line " +
                                         std::to_string(step.first_line));
        continue;
      }
      if (!kNameForm.accepts(step.key)) checker.report_bad_name(step, kNameForm, {"steps", ""});
      steps.push_back(read_step(step, surroundings, mistakes_));
      const Matrix& matrix = steps.back().step.matrix;
      if (!matrix.empty()) surroundings.allowance.used += max_elements(matrix);
    }
    link_steps(steps, mistakes_);
    for (ParsedStep& parsed : steps) workflow_.steps.push_back(std::move(parsed.step));
  }

  Mistakes& mistakes_;
  const fs::path& file_;
  const ParseLimits& limits_;
  Names names_;
  std::vector<GivenParam> set_;
  std::vector<std::string> image_names_;
  std::map<std::string, std::string> variables_;  // environment variable -> parameter
  Workflow workflow_;
};

Diagnostics file_diagnostic(const fs::path& file, const std::string& message) {
  return {{file.string(), {}, message}};
}

std::string too_large(uint64_t bytes, const ParseLimits& limits) {
  return "the file has " + format_size(bytes) + ", but a workflow may have at most " +
         format_size(limits.max_file_bytes) + "; is it the right file?";
}

}  // namespace

std::variant<Workflow, Diagnostics> parse_workflow(const fs::path& file,
                                                   const std::vector<std::string>& set,
                                                   const ParseLimits& limits) {
  try {
    std::error_code unknown_size;
    const auto size = fs::file_size(file, unknown_size);
    if (!unknown_size && size > limits.max_file_bytes) {
      return file_diagnostic(file, too_large(size, limits));
    }
    return parse_workflow_text(read_file(file, limits.max_file_bytes), file, set, limits);
  } catch (const Error& error) {
    return file_diagnostic(file, error.what());
  }
}

std::variant<Workflow, Diagnostics> parse_workflow_text(std::string text, const fs::path& file,
                                                        const std::vector<std::string>& set,
                                                        const ParseLimits& limits) {
  if (text.size() > limits.max_file_bytes) {
    return file_diagnostic(file, too_large(text.size(), limits));
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view content = text;
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  Mistakes mistakes(file.string(), content);
  const YamlPointer root = read_yaml(mistakes, {limits.max_depth, limits.max_nodes});
  Workflow workflow;
  if (root) workflow = WorkflowReader(mistakes, file, limits).read(*root, set);
  if (mistakes.count() > 0) return mistakes.take();
  workflow.file = file.string();
  workflow.text = std::move(text);
  return workflow;
}

}  // namespace dlflow
