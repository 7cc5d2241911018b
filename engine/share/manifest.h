#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

/// dlflow-bundle.json: what a bundle holds, with a checksum for each file. Its keys are in
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
  std::string sha256;  ///< as the workflow declares it; empty: it does not
  uint64_t bytes = 0;  ///< 0: it was not looked at
  bool packed = false;
  bool operator==(const PackedData&) const = default;
};

struct PackedImage {
  std::string from;
  std::string digest;
  bool packed = false;
  bool operator==(const PackedImage&) const = default;
};

struct Manifest {
  std::string dlflow;                          ///< the version that wrote it
  std::string name;                            ///< the workflow's
  std::string workflow;                        ///< its file in the bundle
  Json set = Json::object();                   ///< parameters that are not as the file says
  std::map<std::string, std::string> written;  ///< of these, see Workflow
  std::vector<PackedData> data;                ///< in the order of the workflow
  std::map<std::string, PackedImage> images;
  std::string run;                          ///< that it was packed from; empty: none
  std::map<std::string, PackedFile> files;  ///< all but dlflow-bundle.json itself
  bool operator==(const Manifest&) const = default;
};

/// Where the file with this hash lies in a bundle that was packed with its data.
std::string data_path(const std::string& sha256);

/// "epochs=5" for each of `set`, as `--set` takes it.
std::vector<std::string> settings(const Manifest& manifest);

Json to_json(const Manifest& manifest);
/// Throws Error: InvalidInput for what a newer dlflow wrote, Corrupt for anything else that is no
/// manifest; names in it are checked.
Manifest manifest_from_json(const Json& json);

}  // namespace dlflow
