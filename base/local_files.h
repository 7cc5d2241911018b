#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/url.h"

/// The files that an address of this machine names.
namespace dlflow {

struct LocalFile {
  std::string name;  ///< relative to the folder, with '/' between folders; empty for a single file
  std::filesystem::path path;
};

/// What `place` names, in the order of names; links are followed. Throws Error{NotFound} if there
/// is nothing, Error{InvalidInput} if it names a file and is a folder, or if a folder holds what is
/// neither file nor folder.
std::vector<LocalFile> list_local_files(const UrlPath& place);

}  // namespace dlflow
