#pragma once

#include <string>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "engine/share/manifest.h"

/// A summary of a bundle, for people who decide whether to run it.
namespace dlflow {

struct BundleSummary {
  uint64_t bytes = 0;  ///< of the bundle
  Manifest manifest;
  Workflow workflow;  ///< with the parameters that the bundle sets
  Json run;           ///< run/run.json; null: not packed from a run
};

/// Reads only the workflow's text and the run's record. Throws like BundleReader.
BundleSummary summarize(const std::filesystem::path& bundle);

/// The output of `unpack --list --json`, see docs/user/json.md.
Json to_json(const BundleSummary& summary);

/// The same for people, in lines of 80 columns where names are short enough.
std::string to_text(const BundleSummary& summary);

}  // namespace dlflow
