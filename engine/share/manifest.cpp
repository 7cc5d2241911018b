#include "engine/share/manifest.h"

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"
#include "engine/model/forms.h"
#include "engine/model/workflow.h"
#include "engine/share/zip_reader.h"

namespace dlflow {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedFile, sha256, bytes, executable)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedData, url, sha256, bytes, packed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedImage, from, digest, packed)

template <class Archive>
void list_fields(Archive& archive, Manifest& value) {
  DLFLOW_FIELDS(dlflow, name, workflow, set, data, images, run, files);
  archive.unless_default("written", value.written);
}

namespace {

/// Raised when an older dlflow cannot read the new form.
constexpr int kFormat = 1;

Error corrupt(const std::string& what) {
  return Error(Errc::Corrupt, std::string(kManifestName) + " is damaged: " + what);
}

void check(const Manifest& manifest) {
  if (!kNameForm.accepts(manifest.name)) throw corrupt("its name is not valid for a workflow");
  for (const auto& [name, image] : manifest.images) {
    if (image.digest.empty()) throw corrupt("image '" + name + "' has no digest");
  }
  if (!manifest.files.contains(manifest.workflow)) throw corrupt("it has no workflow");
  if (!manifest.set.is_object()) throw corrupt("'set' is not an object");
  for (const auto& [name, file] : manifest.files) {
    if (!path_is_safe(name)) throw corrupt("'" + name + "' is not a file of a bundle");
    if (!kSha256Form.accepts(file.sha256)) throw corrupt("'" + name + "' has no checksum");
  }
  for (const PackedData& data : manifest.data) {
    if (data.packed && !manifest.files.contains(data_path(data.sha256))) {
      throw corrupt("it declares " + data.url);
    }
  }
}

}  // namespace

std::string data_path(const std::string& sha256) { return "data/" + sha256; }

std::vector<std::string> settings(const Manifest& manifest) {
  return settings_of(manifest.set, manifest.written);
}

Json to_json(const Manifest& manifest) {
  Json json = json_of(manifest);
  json["format"] = kFormat;
  return json;
}

Manifest manifest_from_json(const Json& json) {
  try {
    if (json.at("format").get<int>() > kFormat) {
      throw Error(Errc::InvalidInput, "a newer dlflow (" + json.value("dlflow", "unknown") +
                                          ") wrote this bundle; use that one");
    }
    const auto manifest = from_fields<Manifest>(json);
    check(manifest);
    return manifest;
  } catch (const Json::exception& error) {
    throw corrupt(reason_of(error));
  }
}

}  // namespace dlflow
