#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/model/forms.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Scripts are searched for the parameters they read; data files are not.
constexpr uint64_t kMaxScriptBytes = uint64_t{1} << 20;
constexpr std::string_view kFileScheme = "file://";

Location location_of(const Step& step, const std::string& key) {
  const auto found = step.locations.find(key);
  return found == step.locations.end() ? step.location : found->second;
}

/// `name` itself, or the files below it if it is a folder, as the workflow would name them.
std::vector<std::string> expand(const fs::path& base, const std::string& name) {
  std::error_code ignored;
  if (!fs::is_directory(base / name, ignored)) return {name};
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(base / name)) {
    if (entry.is_regular_file()) {
      files.push_back((fs::path(name) / entry.path().lexically_relative(base / name)).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add_file(Plan& plan, FileHashes& hashes, const Step& step, const std::string& key,
              const std::string& name) {
  if (plan.files.contains(name)) return;
  try {
    plan.files.emplace(name, hashes.sha256(plan.base / name));
  } catch (const Error& error) {
    throw_at(plan.workflow, location_of(step, key), error.what());
  }
}

void read_inputs(Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  PlannedStep& planned = plan.steps[number];
  std::vector<std::string> texts;
  for (const std::string& input : step.inputs) {
    for (std::string& name : expand(plan.base, input)) {
      add_file(plan, hashes, step, "inputs", name);
      std::error_code ignored;
      if (fs::file_size(plan.base / name, ignored) <= kMaxScriptBytes) {
        texts.push_back(read_file(plan.base / name));
      }
      planned.inputs.push_back(std::move(name));
    }
  }
  planned.visible_params = visible_params(step, plan.workflow.params, texts);
}

/// What a step reads from where it lies: too large to copy or to read through whenever a run is
/// planned. It is taken for the same as long as names, sizes and times of change are.
std::string identity_outside(const fs::path& path) {
  std::vector<fs::path> files;
  if (!fs::is_directory(path)) {
    files.push_back(path);
  } else {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  }
  Sha256 hash;
  for (const fs::path& file : files) {
    hash.update(file.lexically_relative(path).string() + " " + std::to_string(fs::file_size(file)) +
                " " + std::to_string(fs::last_write_time(file).time_since_epoch().count()) + "\n");
  }
  return hash.hex();
}

/// What is not there yet is for the step to miss: it may appear before the step runs.
void add_outside(Plan& plan, const std::string& name, const fs::path& path) {
  std::error_code ignored;
  if (plan.outside.contains(name) || !fs::exists(path, ignored)) return;
  plan.outside.emplace(name, identity_outside(path));
}

/// The local files that a step stages and whose content nothing in the workflow pins.
std::vector<std::string> unpinned_sources(const Step& step, const Json& with) {
  std::vector<std::string> urls;
  if (step.uses != "stage" || !with.contains("sources")) return urls;
  for (const Json& source : with.at("sources")) {
    if (!source.is_object() || source.contains("sha256")) continue;
    std::string url = source.value("url", "");
    if (url.starts_with(kFileScheme)) urls.push_back(std::move(url));
  }
  return urls;
}

/// What one element's `with:` names.
struct NamedFiles {
  std::vector<std::pair<std::string, std::string>> frozen;  ///< key, file
  std::vector<std::string> outside;                         ///< paths and URLs
};

bool is_known(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find("${{") == std::string::npos;
}

NamedFiles named_files(const Step& step, const Json& with) {
  NamedFiles files;
  if (!with.is_object()) return files;
  for (const auto& [key, value] : with.items()) {
    const PathRole role = path_role(step.uses, key);
    if (role == PathRole::None) continue;
    for (const Json& path : value.is_array() ? value : Json::array({value})) {
      if (!is_known(path)) continue;  // a parent's output
      if (role == PathRole::Frozen) files.frozen.emplace_back(key, path);
      if (role == PathRole::Outside) files.outside.push_back(path);
    }
  }
  for (std::string& url : unpinned_sources(step, with)) files.outside.push_back(std::move(url));
  return files;
}

void read_with(Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  if (step.uses.empty()) return;
  Context known;
  known.params = &plan.workflow.params;
  for (const Json& element : *plan.steps[number].elements) {
    known.matrix = &element;
    const NamedFiles files = named_files(step, step.with.evaluate_known(known));
    for (const auto& [key, name] : files.frozen) {
      add_file(plan, hashes, step, "with." + key, name);
    }
    for (const std::string& name : files.outside) {
      add_outside(plan, name,
                  name.starts_with(kFileScheme) ? fs::path(name.substr(kFileScheme.size()))
                                                : plan.base / name);
    }
    if (!step.with.has_references()) break;
  }
}

const Form* form_of(const Shape& shape) {
  return shape.form != nullptr || shape.parts.empty() ? shape.form : form_of(shape.parts.front());
}

}  // namespace

PathRole path_role(const std::string& uses, const std::string& key) {
  const StepKind* kind = find_step_kind(uses);
  const Field* field = kind == nullptr ? nullptr : find_field(kind->with, key);
  const Form* form = field == nullptr ? nullptr : form_of(field->shape);
  if (form == nullptr) return PathRole::None;
  if (form->exists != Form::Exists::Unchecked) return PathRole::Frozen;
  return form == &path_form() ? PathRole::Outside : PathRole::None;
}

void read_files(Plan& plan, FileHashes& hashes) {
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    if (!plan.steps[step].planned) continue;
    try {
      read_inputs(plan, hashes, step);
      read_with(plan, hashes, step);
    } catch (const fs::filesystem_error& error) {
      throw_at(plan.workflow, plan.workflow.steps[step].location,
               "step '" + plan.workflow.steps[step].name + "' reads " + error.path1().string() +
                   ": " + error.code().message());
    }
  }
}

ContentHashes files_of(const Plan& plan, const PlannedJob& job, const Json& with) {
  const Step& step = plan.workflow.steps[job.step];
  ContentHashes files;
  const auto add = [&files](const ContentHashes& hashes, const std::string& name) {
    if (const auto found = hashes.find(name); found != hashes.end()) files.insert(*found);
  };
  for (const std::string& name : plan.steps[job.step].inputs) add(plan.files, name);
  const NamedFiles named = named_files(step, with);
  for (const auto& [key, name] : named.frozen) add(plan.files, name);
  for (const std::string& name : named.outside) add(plan.outside, name);
  return files;
}

}  // namespace dlflow
