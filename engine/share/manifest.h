#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/json.h"

/// dlflow-bundle.json: the content of a bundle, with a checksum for each file. Its keys are in
/// docs/user/sharing.md.
namespace dlflow {

inline constexpr const char* kManifestName = "dlflow-bundle.json";

struct PackedFile {
  std::string sha256;
  uint64_t bytes = 0;
  bool executable = false;
  bool operator==(const PackedFile&) const = default;
};

/// A local file that a `stage` step reads.
struct PackedData {
  std::string url;
  std::string sha256;  ///< as declared in the workflow; empty: not declared
  uint64_t bytes = 0;  ///< 0: unknown
  bool packed = false;
  bool operator==(const PackedData&) const = default;
};

struct PackedImage {
  std::string from;
  Digest digest;
  bool packed = false;
  bool operator==(const PackedImage&) const = default;
};

struct Manifest {
  std::string dlflow;                          ///< the dlflow version that wrote it
  std::string name;                            ///< the workflow's
  std::string workflow;                        ///< its file in the bundle
  Json set = Json::object();                   ///< parameters that differ from the file
  std::map<std::string, std::string> written;  ///< for these, see Workflow
  std::vector<PackedData> data;                ///< in the order of the workflow
  std::map<std::string, PackedImage> images;
  std::string run;                          ///< the run that it was packed from; empty: none
  std::map<std::string, PackedFile> files;  ///< all except dlflow-bundle.json itself
  bool operator==(const Manifest&) const = default;
};

/// The place of the file with this hash in a bundle that contains its data.
std::string data_path(const std::string& sha256);

/// "epochs=5" for each of `set`, in the form of `--set`.
std::vector<std::string> settings(const Manifest& manifest);

Json to_json(const Manifest& manifest);
/// Validates names. Throws Error: InvalidInput if a newer dlflow wrote it, Corrupt for any other
/// text that is not a manifest.
Manifest manifest_from_json(const Json& json);

}  // namespace dlflow
