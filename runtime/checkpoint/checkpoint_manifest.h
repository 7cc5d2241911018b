#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/checkpoint/checkpoint.h"

/// manifest.json: the last file of a checkpoint, with lengths and hashes of the others.
namespace dlflow::runtime {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

struct CheckpointManifest {
  CheckpointInfo info;
  std::map<std::string, WrittenFile> files;  ///< by name, without the manifest itself
};

/// Returns the text of manifest.json. It ends with its own hash, which detects any change.
std::string format_manifest(const CheckpointManifest& manifest);

/// Reads STEP_FOLDER/manifest.json. Throws Error{NotFound} if there is none, Error{Corrupt} if it
/// was not written by format_manifest.
CheckpointManifest read_manifest(const std::filesystem::path& step_folder);

}  // namespace dlflow::runtime
