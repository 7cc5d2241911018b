#include "engine/plan/fingerprint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/sha256.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/job.h"

namespace dlflow {
namespace {

/// Raised when dlflow runs commands in a way that changes their results.
constexpr int kRunVersion = 9;

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

constexpr std::string_view kPrefix = "DLFLOW_";
constexpr std::string_view kParamPrefix = "DLFLOW_PARAM_";

using Mentions = std::set<std::string, std::less<>>;

/// Collects every whole name in `text` that begins with "DLFLOW_".
void collect_mentions(std::string_view text, Mentions& mentions) {
  for (size_t at = text.find(kPrefix); at != std::string_view::npos; at = text.find(kPrefix, at)) {
    const size_t begin = at;
    at += kPrefix.size();
    while (at < text.size() && is_name_character(text[at])) ++at;
    mentions.emplace(text.substr(begin, at - begin));
  }
}

void collect_mentions(const Json& json, Mentions& mentions) {
  if (json.is_string())
    collect_mentions(std::string_view(json.get_ref<const std::string&>()), mentions);
  if (!json.is_structured()) return;
  for (const Json& part : json) collect_mentions(part, mentions);
}

bool names_dlflow(std::string_view text) { return text.find("dlflow") != text.npos; }

/// "params(", perhaps with spaces between.
bool has_call_of_params(std::string_view text) {
  constexpr std::string_view kName = "params";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at)) {
    at += kName.size();
    const size_t next = text.find_first_not_of(" \t", at);
    if (next != text.npos && text[next] == '(') return true;
  }
  return false;
}

/// Whether a script may call dlflow.params() of the Python package, which returns all parameters.
/// Covers any form of import, also if one file imports it (`import dlflow as d`) and another one
/// calls it (`from other import d`).
bool may_call_params(std::span<const std::string> texts) {
  const bool is_named = std::ranges::any_of(texts, names_dlflow);
  return is_named && std::ranges::any_of(texts, [](std::string_view text) {
           const bool is_whole = names_dlflow(text) && text.find("params") != text.npos;
           return is_whole || has_call_of_params(text);
         });
}

/// The DLFLOW_ variables mentioned in a `run:` step's command, its `env:` or `texts`.
Mentions mentions_of(const Step& step, std::span<const std::string> texts) {
  Mentions mentions;
  collect_mentions(step.run.source(), mentions);
  collect_mentions(step.environment.source(), mentions);
  for (const std::string& text : texts) collect_mentions(std::string_view(text), mentions);
  return mentions;
}

bool mentions_run(const Step& step) {
  return std::ranges::any_of(templates_of(step), [](const Template* part) {
    return std::ranges::any_of(part->references(),
                               [](const Reference& r) { return r.path[0] == "run"; });
  });
}

/// An output as a child sees it: a path relative to its job's folder, or the value itself.
Json seen_output(const Json& output, const std::filesystem::path& directory) {
  const Json value = output.value("value", Json());
  Json seen = {{"sha256", output.value("sha256", "")}};
  if (output.contains("executable")) seen["executable"] = output.at("executable");
  const std::string folder = directory.string() + "/";
  if (value.is_string() && value.get_ref<const std::string&>().starts_with(folder)) {
    seen["path"] = value.get_ref<const std::string&>().substr(folder.size());
  } else {
    seen["value"] = value;
  }
  return seen;
}

/// "s3://bucket/x", "host:data/x", "registry/model:latest"
bool is_address(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == 0 || colon == text.npos || colon + 1 == text.size()) return false;
  return text[colon + 1] == '/' || text.find_first_of(" \t\n") == text.npos;
}

bool names_a_place(const Json& value) {
  if (value.is_structured()) return std::ranges::any_of(value, names_a_place);
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  const bool is_for_a_shell = text.starts_with('~') || text.starts_with('$');
  return text.starts_with('/') || is_for_a_shell || is_address(text);
}

/// Whether the output names something that was not inspected: "s3://bucket/data", a path of another
/// machine. Its hash is then that of the name.
bool is_out_of_sight(const Json& output) {
  const Json value = output.value("value", Json());
  return names_a_place(value) && output.value("sha256", "") == sha256_hex(value.dump());
}

/// Whether the state that the child finds is unknown, as after an allowed failure: there is no
/// record of how far the parent came.
bool left_what_nobody_knows(const ParentResult& parent, const Json& base) {
  if (parent.failed) {
    const Json awaited = base.value("awaited", Json::array());
    return std::find(awaited.begin(), awaited.end(), parent.step) != awaited.end();
  }
  return did_something_elsewhere(parent) && parent.fingerprint.empty();
}

/// The fields of a base that seen_parent() and left_what_nobody_knows() read. Few steps have one.
constexpr std::array<std::string_view, 3> kReadByParents = {"\"awaited\"", "\"axes\"",
                                                            "\"metrics\""};

/// A parent as the child with the fingerprint_base `base` sees it.
Json seen_parent(const ParentResult& parent, bool in_list, const Json& base) {
  Json seen = {{"step", parent.step}};
  if (!parent.element.empty()) seen["element"] = parent.element;
  if (in_list) seen["in_list"] = true;
  if (parent.skipped || parent.failed) {
    seen[parent.failed ? "failed" : "skipped"] = true;
    return seen;
  }
  for (const auto& [name, output] : parent.outputs.items()) {
    seen["outputs"][name] = seen_output(output, parent.directory);
  }
  if (did_something_elsewhere(parent)) seen["fingerprint"] = parent.fingerprint;
  const auto add = [&](const char* part, const Json& values) {
    const auto names = base.find(part);
    if (names == base.end()) return;
    for (const Json& name : names->value(parent.step, Json::array())) {
      seen[part][name] = values.value(name.get<std::string>(), Json());
    }
  };
  add("metrics", parent.metrics);
  add("axes", known_axes(parent));
  return seen;
}

}  // namespace

std::array<const Template*, 4> templates_of(const Step& step) {
  return {&step.run, &step.with, &step.environment, &step.condition};
}

std::map<std::string, std::string> metrics_read_by_others(const Workflow& workflow,
                                                          const Step& step) {
  std::map<std::string, std::string> readers;
  if (!step.uses.empty()) return readers;
  for (const Step& other : workflow.steps) {
    if (std::ranges::find(other.needs, step.name) == other.needs.end()) continue;
    for (const Template* text : templates_of(other)) {
      for (const auto& [path, place] : text->references()) {
        const bool reads = path.size() >= 4 && path[0] == "steps" && path[1] == step.name;
        if (reads && path[2] == "metrics") readers.emplace(path[3], other.name);
      }
    }
  }
  return readers;
}

int work_version(const std::string& uses) {
  if (uses.empty()) return kRunVersion;
  const StepKind* kind = find_step_kind(uses);
  return kind == nullptr ? 0 : kind->version;
}

std::string FreshFileHashes::sha256(const std::filesystem::path& file) { return sha256_file(file); }

bool act_elsewhere(const Json& outputs) {
  return outputs.empty() || std::ranges::any_of(outputs, is_out_of_sight);
}

bool did_something_elsewhere(const ParentResult& parent) {
  return !parent.skipped && !parent.failed && act_elsewhere(parent.outputs);
}

Json known_axes(const ParentResult& parent) {
  Json values = parent.element;
  for (const Json& output : parent.outputs) {
    if (output.contains("matrix")) values.update(output.at("matrix"));
  }
  return values;
}

bool is_list(size_t num_parents_of_step, const Json& parent_element, const Json& element) {
  return num_parents_of_step != 1 || !is_part_of(parent_element, element);
}

Fingerprint fingerprint(std::string_view base, const Json& element,
                        std::span<const ParentResult> parents) {
  Sha256 hash;
  hash.update(base);
  if (parents.empty()) return Fingerprint::of(hash);
  const bool is_read = std::ranges::any_of(
      kReadByParents, [&](std::string_view field) { return base.find(field) != base.npos; });
  const Json known = is_read ? Json::parse(base) : Json::object();
  std::map<std::string_view, size_t> parents_of;
  for (const ParentResult& parent : parents) ++parents_of[parent.step];
  for (const ParentResult& parent : parents) {
    if (left_what_nobody_knows(parent, known)) return {};
    const bool in_list = is_list(parents_of[parent.step], parent.element, element);
    hash.update("\n").update(seen_parent(parent, in_list, known).dump());
  }
  return Fingerprint::of(hash);
}

bool sees_run(const Step& step, std::span<const std::string> texts) {
  if (mentions_run(step)) return true;
  if (!step.uses.empty()) return false;
  const Mentions mentions = mentions_of(step, texts);
  constexpr std::array<std::string_view, 4> kTold = {"DLFLOW_RUN", "DLFLOW_ATTEMPT", "DLFLOW_PASS",
                                                     kPrefix};
  return std::ranges::any_of(kTold, [&](std::string_view name) { return mentions.contains(name); });
}

Json late_params(const Step& step, const Context& known) {
  Json params = Json::object();
  for (const Template* part : templates_of(step)) {
    for (const Reference& reference : part->references_left(known)) {
      if (reference.path[0] == "params")
        params[reference.path[1]] = known.params->at(reference.path[1]);
    }
  }
  return params;
}

Json visible_params(const Step& step, const Json& params, std::span<const std::string> texts) {
  if (!step.uses.empty()) return Json::object();
  Mentions mentions = mentions_of(step, texts);
  Json visible = Json::object();
  for (const auto& [key, value] : params.items()) {
    if (mentions.erase(environment_name(kParamPrefix, key)) != 0) visible[key] = value;
  }
  const bool may_compose = std::ranges::any_of(mentions, [](const std::string& name) {
    return name == kPrefix || name.starts_with(kParamPrefix);
  });
  std::vector<std::string> scripts(texts.begin(), texts.end());
  scripts.push_back(step.run.source().dump());
  return may_compose || may_call_params(scripts) ? params : visible;
}

}  // namespace dlflow
