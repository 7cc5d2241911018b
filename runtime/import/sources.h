#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/import/reshape.h"
#include "runtime/import/table.h"

/// The sources that can become a .dlset.
namespace dlflow::runtime {

struct ImportedSplit {
  SampleSource source;
  std::vector<std::string> classes;  ///< names, by label; empty if the source has none
  std::vector<std::string> columns;  ///< of a table, "feature NAME" and "target NAME" in order
  std::vector<std::string> names;    ///< of samples, "cat/1.png", of pictures
  /// What may be a mistake, a line each, after all samples were read; not set if nothing can be.
  std::function<std::vector<std::string>()> notes = {};
};

/// Options that sources of one kind have.
struct ImportOptions {
  TableColumns columns;                 ///< of tables
  Reshaping reshaping;                  ///< of pictures
  bool keeps_jpeg = false;              ///< pictures are JPEG files, and stay such
  std::optional<int64_t> ignored = {};  ///< of masks: a value that is no class, as 255 is
};

/// Opens, by what it finds:
///  - a folder that training could read, IDX files that are still compressed included: its `split`;
///  - a folder of folders: one class each, of pictures, all in the order of their names, which are
///    reshaped as asked; or kept as JPEG files, if all are such, to be reshaped when they are
///    loaded;
///  - a folder with `images` and `masks`: masked_pictures.h;
///  - a .csv or .tsv file, of which the columns say what is to be learnt;
///  - two files, images or rows, and `labels`, targets or masks: .npy arrays, or IDX.
/// Of pictures, only the first good one is read before it is asked for. Throws Error: NotFound,
/// InvalidInput or Corrupt, naming the file and what to do.
ImportedSplit open_source(const std::filesystem::path& source, const std::filesystem::path& labels,
                          Split split, const ImportOptions& options = {});

}  // namespace dlflow::runtime
