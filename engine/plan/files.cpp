#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
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

constexpr std::string_view kFileScheme = "file://";

/// The local files that a step stages and whose content nothing in the workflow pins.
std::vector<std::string> unpinned_sources(const Step& step, const Json& with) {
  std::vector<std::string> urls;
  if (step.uses != "stage" || !with.contains("sources") || !with.at("sources").is_array()) {
    return urls;
  }
  for (const Json& source : with.at("sources")) {
    if (!source.is_object() || source.contains("sha256")) continue;
    const std::string url = source.value("url", "");
    if (url.starts_with(kFileScheme)) urls.push_back(url);
  }
  return urls;
}

/// The values of `with:` that name files. One that a step's output decides is not known yet.
std::vector<std::pair<std::string, std::string>> named_files(const Step& step, const Json& with) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!with.is_object()) return files;
  for (const auto& [key, value] : with.items()) {
    if (!is_file_key(step.uses, key) || !value.is_string()) continue;
    const auto& name = value.get_ref<const std::string&>();
    if (name.find("${{") == std::string::npos) files.emplace_back(key, name);
  }
  return files;
}

void read_with(Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  if (step.uses != "stage" && step.uses != "train" && step.uses != "evaluate") return;
  Context known;
  known.params = &plan.workflow.params;
  for (const Json& element : *plan.steps[number].elements) {
    known.matrix = &element;
    const Json with = step.with.evaluate_known(known);
    for (const auto& [key, name] : named_files(step, with)) {
      add_file(plan, hashes, step, "with." + key, name);
    }
    for (const std::string& url : unpinned_sources(step, with)) {
      const fs::path file = url.substr(kFileScheme.size());
      // A missing source is the stage step's to report: it may appear before the step runs.
      std::error_code ignored;
      if (fs::is_regular_file(file, ignored)) plan.files.emplace(url, hashes.sha256(file));
    }
    if (!step.with.has_references()) break;
  }
}

}  // namespace

bool is_file_key(const std::string& uses, const std::string& key) {
  return uses == "train" && key == "model";
}

void read_files(Plan& plan, FileHashes& hashes) {
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    if (!plan.steps[step].planned) continue;
    read_inputs(plan, hashes, step);
    read_with(plan, hashes, step);
  }
}

ContentHashes files_of(const Plan& plan, const PlannedJob& job, const Json& with) {
  const Step& step = plan.workflow.steps[job.step];
  ContentHashes files;
  const auto add = [&](const std::string& name) {
    if (const auto found = plan.files.find(name); found != plan.files.end()) files.insert(*found);
  };
  for (const std::string& name : plan.steps[job.step].inputs) add(name);
  for (const auto& [key, name] : named_files(step, with)) add(name);
  for (const std::string& url : unpinned_sources(step, with)) add(url);
  return files;
}

}  // namespace dlflow
