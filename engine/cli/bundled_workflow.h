#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Workflows that are run straight from a bundle, or from what `unpack` made of one.
namespace dlflow {

struct BundledWorkflow {
  std::filesystem::path file;
  std::vector<std::string> set;  ///< what the bundle says that parameters are
};

/// The workflow of `bundle`, unpacked below $DLFLOW_HOME/bundles unless it is there: its folder is
/// named after its content. Throws as BundleReader.
BundledWorkflow open_bundled_workflow(const std::filesystem::path& bundle);

/// If `workflow` is of an unpacked bundle, brings the data that was packed with it into the cache
/// of `profile`, where its `stage` steps find it. Throws Error.
void use_packed_data(const Workflow& workflow, const Profile& profile);

}  // namespace dlflow
