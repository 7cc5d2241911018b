#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/binary_dataset.h"

/// The sources that can become a .dlset.
namespace dlflow::runtime {

struct ImportedSplit {
  SampleSource source;
  std::vector<std::string> classes;  ///< names, by label; empty if the source has none
};

/// Opens, by what it finds:
///  - a folder that training could read, IDX files that are still compressed included: its `split`;
///  - a folder of folders: one class each, of pictures, all in the order of their names;
///  - two files, images and `labels`: .npy arrays, or IDX.
/// Of pictures, only the first is read before it is asked for. Throws Error: NotFound, InvalidInput
/// or Corrupt, naming the file and what to do.
ImportedSplit open_source(const std::filesystem::path& source, const std::filesystem::path& labels,
                          Split split);

}  // namespace dlflow::runtime
