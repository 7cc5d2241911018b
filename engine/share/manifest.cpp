#include "engine/share/manifest.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/parse_json.h"
#include "engine/model/forms.h"
#include "engine/model/workflow.h"
#include "engine/share/zip_reader.h"

namespace dlflow {
namespace {

/// Raised when an older dlflow could not read what is written.
constexpr int kFormat = 1;

Error corrupt(const std::string& what) {
  return Error(Errc::Corrupt, std::string(kManifestName) + " is damaged: " + what);
}

Manifest read(const Json& json) {
  Manifest manifest;
  json.at("dlflow").get_to(manifest.dlflow);
  json.at("name").get_to(manifest.name);
  json.at("workflow").get_to(manifest.workflow);
  manifest.set = json.at("set");
  manifest.written = json.value("written", manifest.written);
  for (const Json& data : json.at("data")) {
    manifest.data.push_back(
        {data.at("url"), data.at("sha256"), data.at("bytes"), data.at("packed").get<bool>()});
  }
  for (const auto& [name, image] : json.at("images").items()) {
    manifest.images[name] = {image.at("from"), checked_digest(image.at("digest"), kManifestName),
                             image.at("packed").get<bool>()};
  }
  json.at("run").get_to(manifest.run);
  for (const auto& [name, file] : json.at("files").items()) {
    manifest.files[name] = {file.at("sha256"), file.at("bytes"), file.at("executable").get<bool>()};
  }
  return manifest;
}

void check(const Manifest& manifest) {
  if (!kNameForm.accepts(manifest.name)) throw corrupt("its name is no workflow's");
  if (!manifest.files.contains(manifest.workflow)) throw corrupt("it has no workflow");
  if (!manifest.set.is_object()) throw corrupt("'set' is no object");
  for (const auto& [name, file] : manifest.files) {
    if (!path_is_safe(name)) throw corrupt("'" + name + "' is no file of a bundle");
    if (!kSha256Form.accepts(file.sha256)) throw corrupt("'" + name + "' has no checksum");
  }
  for (const PackedData& data : manifest.data) {
    if (data.packed && !manifest.files.contains(data_path(data.sha256))) {
      throw corrupt("it says that it holds " + data.url);
    }
  }
}

}  // namespace

std::string data_path(const std::string& sha256) { return "data/" + sha256; }

std::vector<std::string> settings(const Manifest& manifest) {
  return settings_of(manifest.set, manifest.written);
}

Json to_json(const Manifest& manifest) {
  Json data = Json::array();
  for (const PackedData& item : manifest.data) {
    data.push_back({{"url", item.url},
                    {"sha256", item.sha256},
                    {"bytes", item.bytes},
                    {"packed", item.packed}});
  }
  Json images = Json::object();
  for (const auto& [name, image] : manifest.images) {
    images[name] = {{"from", image.from}, {"digest", image.digest}, {"packed", image.packed}};
  }
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"sha256", file.sha256}, {"bytes", file.bytes}, {"executable", file.executable}};
  }
  Json json = {{"format", kFormat},           {"dlflow", manifest.dlflow},
               {"name", manifest.name},       {"workflow", manifest.workflow},
               {"set", manifest.set},         {"data", std::move(data)},
               {"images", std::move(images)}, {"run", manifest.run},
               {"files", std::move(files)}};
  if (!manifest.written.empty()) json["written"] = manifest.written;
  return json;
}

Manifest manifest_from_json(const Json& json) {
  try {
    if (json.at("format").get<int>() > kFormat) {
      throw Error(Errc::InvalidInput, "a newer dlflow (" + json.value("dlflow", "unknown") +
                                          ") wrote this bundle; use that one");
    }
    Manifest manifest = read(json);
    check(manifest);
    return manifest;
  } catch (const Json::exception& error) {
    throw corrupt(reason_of(error));
  }
}

}  // namespace dlflow
