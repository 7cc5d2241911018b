#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/fingerprint.h"

/// Copies of the files that a workflow names, which keep their names: below RUN/sources, and in
/// bundles.
namespace dlflow {

/// The folder below `root` that stands for the workflow's own: as deep as its files reach above it.
/// "../data/x" reaches one level, and so the folder is `root`/_.
std::filesystem::path frozen_base(const std::filesystem::path& root, const ContentHashes& files);

/// Where the copy of the file lies that the workflow calls `name`; `base` is frozen_base().
std::filesystem::path frozen_path(const std::filesystem::path& base, const std::string& name);

}  // namespace dlflow
