#include "runtime/checkpoint/checkpoint_manifest.h"

#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"

namespace dlflow::runtime {
namespace {

constexpr int kVersion = 1;

/// Hashes everything in the manifest but the hash itself, as formatted by dump().
std::string self_hash(Json manifest) {
  manifest.erase("sha256");
  return sha256_hex(manifest.dump());
}

/// The same for a manifest that Python wrote, whose numbers are formatted differently: hashes all
/// bytes of the file, with zeros in place of the hash.
std::string text_hash(std::string text, const std::string& hash) {
  if (const size_t at = text.find(hash); at != text.npos) {
    text.replace(at, hash.size(), hash.size(), '0');
  }
  return sha256_hex(text);
}

bool hash_holds(const Json& manifest, const std::string& text) {
  const auto hash = manifest.at("sha256").get<std::string>();
  return hash == self_hash(manifest) || hash == text_hash(text, hash);
}

/// Whether `name` is a file directly in the checkpoint's folder.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

CheckpointManifest from_json(const Json& json) {
  CheckpointManifest manifest;
  manifest.info.step = json.at("step");
  manifest.info.epoch = json.at("epoch");
  manifest.info.samples = json.at("samples");
  manifest.info.model = json.at("model");
  if (json.contains("best")) manifest.info.best = json.at("best").get<uint64_t>();
  for (const auto& [name, value] : json.at("metrics").items()) {
    manifest.info.metrics[name] =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  for (const auto& [name, file] : json.at("files").items()) {
    manifest.files[name] = {.bytes = file.at("bytes"), .sha256 = file.at("sha256")};
  }
  return manifest;
}

}  // namespace

std::string format_manifest(const CheckpointManifest& manifest) {
  Json metrics = Json::object();
  for (const auto& [name, value] : manifest.info.metrics) {
    metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);  // JSON has no NaN
  }
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  }
  Json json = {{"format", "dlflow-checkpoint"},    {"version", kVersion},
               {"step", manifest.info.step},       {"epoch", manifest.info.epoch},
               {"samples", manifest.info.samples}, {"metrics", metrics},
               {"model", manifest.info.model},     {"files", files}};
  if (manifest.info.best) json["best"] = *manifest.info.best;
  json["sha256"] = self_hash(json);
  return json.dump(2) + "\n";
}

CheckpointManifest read_manifest(const std::filesystem::path& step_folder) {
  const auto path = step_folder / kManifestFile;
  std::error_code error;  // for an unreadable folder, which read_file() reports
  if (!std::filesystem::exists(path, error) && !error) {
    throw Error(Errc::NotFound, step_folder.string() + " is not a checkpoint: it has no " +
                                    kManifestFile + ", which is written last");
  }
  const auto corrupt = [&](const std::string& what) {
    return Error(Errc::Corrupt, path.string() + " is damaged: " + what);
  };
  const std::string text = read_file(path, kForeignJson.max_bytes);
  const Json json = parse_json(text, kForeignJson);
  if (!json.is_object()) throw corrupt("it is not a JSON object");
  try {
    if (json.at("format") != "dlflow-checkpoint") throw corrupt("it belongs to another program");
    if (json.at("version") != kVersion) {
      throw corrupt("dlflow " DLFLOW_VERSION " reads format version " + std::to_string(kVersion) +
                    ", but this is " + json.at("version").dump());
    }
    if (!hash_holds(json, text)) throw corrupt("its hash does not match");
    CheckpointManifest manifest = from_json(json);
    for (const auto& [name, file] : manifest.files) {
      if (!is_file_name(name))
        throw corrupt("'" + escaped(name) + "' is not the name of a file in it");
    }
    return manifest;
  } catch (const Json::exception& exception) {
    throw corrupt(reason_of(exception));
  }
}

}  // namespace dlflow::runtime
