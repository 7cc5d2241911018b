#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Workflows run directly from a bundle, or from a folder that `unpack` made of one.
namespace dlflow {

struct BundledWorkflow {
  std::filesystem::path file;
  std::vector<std::string> set;  ///< the parameters in the bundle
};

/// Returns the workflow of `bundle`, after unpacking it below $DLFLOW_HOME/bundles unless it is
/// there. Its folder is named after its content. Throws like BundleReader.
BundledWorkflow open_bundled_workflow(const std::filesystem::path& bundle);

/// If `workflow` comes from an unpacked bundle, copies the packed data into the cache of `profile`,
/// where its `stage` steps find it. Throws Error.
void use_packed_data(const Workflow& workflow, const Profile& profile);

}  // namespace dlflow
