#pragma once

#include <filesystem>
#include <map>
#include <set>
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

/// Those of a step's `inputs` (name -> where it lies) that each attempt gets copies of, so that it
/// may write to them and beside them: files of 1 MiB at most, 1,000 files and 16 MiB in all. A
/// folder's files are copied together or not at all, the folders with the fewest files first.
std::set<std::string> copied_inputs(const std::map<std::string, std::string>& inputs);

}  // namespace dlflow
