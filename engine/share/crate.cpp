#include "engine/share/crate.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace dlflow {
namespace {

constexpr const char* kCrate = "https://w3id.org/ro/crate/1.1";
constexpr const char* kWorkflowCrate = "https://w3id.org/workflowhub/workflow-ro-crate/1.0";
constexpr const char* kProcessRun = "https://w3id.org/ro/wfrun/process/0.5";
constexpr const char* kWorkflowRun = "https://w3id.org/ro/wfrun/workflow/0.5";
constexpr const char* kWorkflowProfile =
    "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE";
constexpr const char* kLanguage = "#dlflow";

/// Of a bundle that is packed without a run: the crate wants a date, and the same content is to be
/// the same bytes on any day.
constexpr const char* kNoDate = "1980-01-01";

Json reference(const std::string& id) { return {{"@id", id}}; }

/// A list of references; one alone stands for itself, as compacted JSON-LD has it.
Json references(const std::vector<std::string>& ids) {
  if (ids.size() == 1) return reference(ids.front());
  Json list = Json::array();
  for (const std::string& id : ids) list.push_back(reference(id));
  return list;
}

/// A path as a relative URI.
std::string uri(const std::string& path) {
  constexpr std::string_view kPlain = "-._~/=,+@()";
  std::string text;
  for (const char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kPlain.find(c) != kPlain.npos) {
      text += c;
    } else {
      std::array<char, 4> escape{};
      std::snprintf(escape.data(), escape.size(), "%%%02X", unsigned(uint8_t(c)));
      text += escape.data();
    }
  }
  return text;
}

/// "…+00:00", the form that the profiles want.
std::string iso_time(Time time) {
  std::string text = to_rfc3339(time);
  text.pop_back();  // Z
  return text + "+00:00";
}

const char* media_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kTypes{
      {{".yaml", "application/yaml"},
       {".yml", "application/yaml"},
       {".json", "application/json"},
       {".jsonl", "application/jsonl"},
       {".py", "text/x-python"},
       {".gz", "application/gzip"}}};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

/// schema.org's word for the type of a parameter's value.
const char* type_of(const Json& value) {
  if (value.is_boolean()) return "Boolean";
  if (value.is_number_integer()) return "Integer";
  if (value.is_number()) return "Float";
  return "Text";
}

std::string as_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Crate {
 public:
  Crate(const Bundle& bundle, const Manifest& manifest) : bundle_(bundle), manifest_(manifest) {}

  Json metadata() {
    add_descriptor();
    add_root();
    add_workflow();
    add_files();
    if (bundle_.run) add_run();
    // RO-Crate 1.1 knows no checksums.
    const std::string terms = "https://w3id.org/ro/terms/workflow-run#";
    return {{"@context", {std::string(kCrate) + "/context", {{"sha256", terms + "sha256"}}}},
            {"@graph", std::move(graph_)}};
  }

 private:
  void add_descriptor() {
    graph_.push_back({{"@id", kCrateName},
                      {"@type", "CreativeWork"},
                      {"about", reference("./")},
                      {"conformsTo", references({kCrate, kWorkflowCrate})}});
  }

  void add_root() {
    std::vector<std::string> profiles = {kWorkflowCrate};
    if (bundle_.run) profiles = {kProcessRun, kWorkflowRun, kWorkflowCrate};
    const std::string of_run = bundle_.run ? ", and what its run " + manifest_.run + " gave" : "";
    std::vector<std::string> files = {kManifestName};
    for (const auto& [name, file] : manifest_.files) files.push_back(uri(name));
    Json root = {
        {"@id", "./"},
        {"@type", "Dataset"},
        {"name", manifest_.name},
        {"description",
         "The dlflow workflow " + manifest_.name + " with the files that it reads" + of_run + "."},
        {"datePublished", bundle_.run ? to_rfc3339(bundle_.run->ended).substr(0, 10) : kNoDate},
        {"license", "No licence was given; ask the author."},
        {"conformsTo", references(profiles)},
        {"hasPart", references(files)},
        {"mainEntity", reference(uri(manifest_.workflow))}};
    if (bundle_.run) root["mentions"] = reference("#run");
    graph_.push_back(std::move(root));
    for (const std::string& profile : profiles) {
      graph_.push_back({{"@id", profile},
                        {"@type", "CreativeWork"},
                        {"name", profile_name(profile)},
                        {"version", profile.substr(profile.rfind('/') + 1)}});
    }
  }

  static const char* profile_name(const std::string& profile) {
    return profile == kProcessRun    ? "Process Run Crate"
           : profile == kWorkflowRun ? "Workflow Run Crate"
                                     : "Workflow RO-Crate";
  }

  void add_workflow() {
    graph_.push_back({{"@id", kLanguage},
                      {"@type", "ComputerLanguage"},
                      {"name", "dlflow workflow"},
                      {"alternateName", "dlflow"},
                      {"version", manifest_.dlflow}});
    std::vector<std::string> inputs;
    for (const auto& [name, value] : bundle_.workflow.params.items()) {
      inputs.push_back("#param-" + uri(name));
      Json parameter = {{"@id", inputs.back()},
                        {"@type", "FormalParameter"},
                        {"name", name},
                        {"additionalType", type_of(value)}};
      if (bundle_.run) parameter["workExample"] = reference("#value-" + uri(name));
      graph_.push_back(std::move(parameter));
    }
    workflow_ = {{"@id", uri(manifest_.workflow)},
                 {"@type", {"File", "SoftwareSourceCode", "ComputationalWorkflow"}},
                 {"name", manifest_.name},
                 {"conformsTo", reference(kWorkflowProfile)},
                 {"programmingLanguage", reference(kLanguage)}};
    if (!inputs.empty()) workflow_["input"] = references(inputs);
    // Its content is all that tells one version from another.
    const auto file = manifest_.files.find(manifest_.workflow);
    if (file != manifest_.files.end()) workflow_["version"] = file->second.sha256.substr(0, 12);
  }

  void add_files() {
    graph_.push_back({{"@id", kManifestName},
                      {"@type", "File"},
                      {"name", "The bundle's files with their checksums"},
                      {"encodingFormat", media_type(kManifestName)}});
    for (const auto& [name, file] : manifest_.files) {
      Json entity = name == manifest_.workflow
                        ? workflow_
                        : Json{{"@id", uri(name)}, {"@type", "File"}, {"name", name}};
      entity["encodingFormat"] = media_type(name);
      entity["contentSize"] = std::to_string(file.bytes);
      entity["sha256"] = file.sha256;
      graph_.push_back(std::move(entity));
    }
  }

  void add_run() {
    std::vector<std::string> objects;
    for (const auto& [name, value] : bundle_.workflow.params.items()) {
      objects.push_back("#value-" + uri(name));
      graph_.push_back({{"@id", objects.back()},
                        {"@type", "PropertyValue"},
                        {"name", name},
                        {"value", as_text(value)},
                        {"exampleOfWork", reference("#param-" + uri(name))}});
    }
    std::vector<std::string> results;
    for (const auto& [name, file] : manifest_.files) {
      if (name.starts_with("run/")) results.push_back(uri(name));
    }
    const bool done = bundle_.run->state == "succeeded";
    Json action = {{"@id", "#run"},
                   {"@type", "CreateAction"},
                   {"name", manifest_.run},
                   {"description", "The run " + manifest_.run + " of " + manifest_.name + ": " +
                                       bundle_.run->state},
                   {"instrument", reference(uri(manifest_.workflow))},
                   {"startTime", iso_time(bundle_.run->started)},
                   {"endTime", iso_time(bundle_.run->ended)},
                   {"actionStatus", std::string("http://schema.org/") +
                                        (done ? "CompletedActionStatus" : "FailedActionStatus")}};
    if (!objects.empty()) action["object"] = references(objects);
    if (!results.empty()) action["result"] = references(results);
    graph_.push_back(std::move(action));
  }

  const Bundle& bundle_;
  const Manifest& manifest_;
  Json workflow_;  // its entity, but for what all files have
  Json graph_ = Json::array();
};

}  // namespace

Json crate_metadata(const Bundle& bundle, const Manifest& manifest) {
  return Crate(bundle, manifest).metadata();
}

}  // namespace dlflow
