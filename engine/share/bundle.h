#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/share/manifest.h"

/// The contents of a bundle, before it is written.
namespace dlflow {

struct BundleFile {
  std::string name;              ///< in the bundle
  std::filesystem::path source;  ///< where its content is; empty: `text`
  std::string text = {};
};

struct Bundle {
  Manifest manifest;  ///< without its `files`: writing fills them in
  Workflow workflow;
  std::vector<BundleFile> files;
  size_t num_results = 0;  ///< of its run's jobs, that are in it as they were published
  /// Data that steps read where it lies, and that is not in the bundle, as the workflow names it.
  std::vector<std::string> left_out = {};
};

/// Writes `bundle` to `file`: the same bytes for the same content, whoever packs it, when and
/// where. It is there completely or not at all. Returns the manifest as it was written. Throws
/// Error, also if a file changes meanwhile.
Manifest write_bundle(const Bundle& bundle, const std::filesystem::path& file);

}  // namespace dlflow
