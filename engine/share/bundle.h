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
  std::filesystem::path source;  ///< the file with its content; empty: `text` is the content
  std::string text = {};
};

struct Bundle {
  Manifest manifest;  ///< without its `files`, which writing fills in
  Workflow workflow;
  std::vector<BundleFile> files;
  size_t num_results = 0;  ///< number of jobs with results as they were published
  /// Data that steps read in place and that is not in the bundle, named as in the workflow.
  std::vector<std::string> left_out = {};
};

/// Writes `bundle` to `file`, completely or not at all. The same content gives the same bytes, on
/// any machine, for any user and at any time. Returns the manifest as written. Throws Error, also
/// if a file changes meanwhile.
Manifest write_bundle(const Bundle& bundle, const std::filesystem::path& file);

}  // namespace dlflow
