#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/local_files.h"

/// Data that a step reads where it lies: too large to copy into the run.
namespace dlflow {

/// The files that `place` leads to: a file, a folder, or a file:// URL (a file, a folder with a '/'
/// at its end, or a pattern), in the order of names. None if there is nothing.
std::vector<LocalFile> data_at(const std::string& place);

/// What tells one state of that data from another without reading it: names, sizes, times and
/// inodes. Empty if there is nothing.
std::string data_identity(const std::string& place);

}  // namespace dlflow
