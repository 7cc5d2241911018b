#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace dlflow::test {

/// The files of `folder`, in the order of their names.
inline std::vector<std::string> corpus(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator entries(folder);
  std::vector<std::filesystem::path> files(begin(entries), end(entries));
  std::sort(files.begin(), files.end());
  std::vector<std::string> contents;
  for (const auto& file : files) contents.push_back(read_file(file));
  return contents;
}

}  // namespace dlflow::test
