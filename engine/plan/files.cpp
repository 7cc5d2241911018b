#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/sha256.h"
#include "engine/model/forms.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Scripts are searched for the parameters they read; data files are not.
constexpr uint64_t kMaxScriptBytes = uint64_t{1} << 20;

Location location_of(const Step& step, const std::string& key) {
  const auto found = step.locations.find(key);
  return found == step.locations.end() ? step.location : found->second;
}

/// `name` itself, or the files below it if it is a folder, as the workflow would name them. Runs
/// are no input: one more with each run, nothing would ever be reused.
std::vector<std::string> expand(const Plan& plan, const Step& step, const std::string& name) {
  const fs::path path = plan.base / name;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {name};
  std::vector<std::string> files;
  for (const auto& entry : entries_below(path, plan.profile.runs)) {
    if (entry.is_other()) {
      throw_at(plan.workflow, location_of(step, "inputs"),
               entry.path().string() +
                   " is a pipe, a socket or a device, which cannot be copied into a run");
    }
    if (entry.is_regular_file()) {
      files.push_back((fs::path(name) / entry.path().lexically_relative(path)).string());
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
    for (std::string& name : expand(plan, step, input)) {
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

std::vector<LocalFile> files_at(const fs::path& path) {
  if (!fs::is_directory(path)) return {{"", path}};
  std::vector<LocalFile> files;
  for (const auto& entry : entries_below(path)) {
    if (!entry.is_regular_file()) continue;
    files.push_back({entry.path().lexically_relative(path).string(), entry.path()});
  }
  std::sort(files.begin(), files.end(),
            [](const LocalFile& a, const LocalFile& b) { return a.name < b.name; });
  return files;
}

/// What a step reads from where it lies: too large to copy or to read through whenever a run is
/// planned. It is taken for the same as long as names, sizes and times of change are.
std::string identity_outside(const std::vector<LocalFile>& files) {
  Sha256 hash;
  for (const LocalFile& file : files) {
    hash.update(file.name + " " + std::to_string(fs::file_size(file.path)) + " " +
                std::to_string(fs::last_write_time(file.path).time_since_epoch().count()) + "\n");
  }
  return hash.hex();
}

/// What is not there yet is for the step to miss: it may appear before the step runs.
void add_outside(Plan& plan, const std::string& name) {
  if (plan.outside.contains(name)) return;
  if (const auto place = parse_file_url(name)) {
    try {
      plan.outside.emplace(name, identity_outside(list_local_files(*place)));
    } catch (const Error&) {
    }
    return;
  }
  std::error_code ignored;
  const fs::path path = plan.base / name;
  if (fs::exists(path, ignored)) plan.outside.emplace(name, identity_outside(files_at(path)));
}

/// The local files that a step stages and whose content nothing in the workflow pins.
std::vector<std::string> unpinned_sources(const Step& step, const Json& with) {
  std::vector<std::string> urls;
  if (step.uses != "stage" || !with.contains("sources")) return urls;
  for (const Json& source : with.at("sources")) {
    if (!source.is_object() || source.contains("sha256") || source.contains("manifest")) continue;
    std::string url = source.value("url", "");
    if (parse_file_url(url)) urls.push_back(std::move(url));
  }
  return urls;
}

/// What one element's `with:` names.
struct NamedFiles {
  std::vector<std::pair<std::string, std::string>> frozen;  ///< key, file
  std::vector<std::string> outside;                         ///< paths and URLs
};

PathRole role_of(const Form& form) {
  if (form.exists != Form::Exists::Unchecked) return PathRole::Frozen;
  return &form == &path_form() ? PathRole::Outside : PathRole::None;
}

/// visit_paths() for one value of the shape `shape`, in the key `key`.
void visit_value(const Shape& shape, const std::string& key, Json& value,
                 const PathVisitor& visit) {
  if (shape.type == Shape::Type::Formed && value.is_string()) {
    const PathRole role = role_of(*shape.form);
    const bool is_known = value.get_ref<const std::string&>().find("${{") == std::string::npos;
    if (role != PathRole::None && is_known) visit(key, role, value);  // else a parent's output
  } else if (shape.type == Shape::Type::List && value.is_array()) {
    for (Json& part : value) visit_value(shape.parts.front(), key, part, visit);
  } else if (shape.type == Shape::Type::Either) {
    for (const Shape& part : shape.parts) visit_value(part, key, value, visit);
  } else if (shape.type == Shape::Type::Object && value.is_object()) {
    for (const Field& field : shape.fields) {
      if (value.contains(field.name)) visit_value(field.shape, key, value[field.name], visit);
    }
  }
}

NamedFiles named_files(const Step& step, Json with) {
  NamedFiles files;
  visit_paths(step.uses, with, [&](const std::string& key, PathRole role, Json& path) {
    if (role == PathRole::Frozen) files.frozen.emplace_back(key, path);
    if (role == PathRole::Outside) files.outside.push_back(path);
  });
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
    for (const std::string& name : files.outside) add_outside(plan, name);
    if (!step.with.has_references()) break;
  }
}

}  // namespace

void visit_paths(const std::string& uses, Json& with, const PathVisitor& visit) {
  const StepKind* kind = find_step_kind(uses);
  if (kind == nullptr || !with.is_object()) return;
  for (const Field& field : kind->with.fields) {
    if (with.contains(field.name)) visit_value(field.shape, field.name, with[field.name], visit);
  }
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
