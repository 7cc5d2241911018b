#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "engine/plan/fingerprint.h"

/// Copies of the files that a workflow names, below RUN/sources and in bundles. They keep their
/// names.
namespace dlflow {

/// The folder below `root` that stands for the workflow's own, nested as deep as file names climb
/// above it. "../data/x" climbs one level, so the folder is `root`/_.
std::filesystem::path frozen_base(const std::filesystem::path& root, const ContentHashes& files);

/// The copy of the file that the workflow calls `name`; `base` is frozen_base().
std::filesystem::path frozen_path(const std::filesystem::path& base, const std::string& name);

/// Selects the `inputs` of a step (name -> place) that each attempt gets copies of, so that it may
/// write to them and beside them: files of at most 1 MiB, 1,000 files and 16 MiB in all. A folder's
/// files are copied together or not at all; folders with the fewest files come first.
std::set<std::string> copied_inputs(const std::map<std::string, std::string>& inputs);

}  // namespace dlflow
