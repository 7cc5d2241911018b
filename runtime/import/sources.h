#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/import/reshape.h"
#include "runtime/import/table.h"

/// The sources that can be imported into a .dlset.
namespace dlflow::runtime {

struct ImportedSplit {
  SampleSource source;
  std::vector<std::string> classes;  ///< names, by label; empty if the source has none
  std::vector<std::string> columns;  ///< for tables, line_of(feature) and "target NAME", in order
  std::vector<std::string> names;    ///< of samples: "cat/1.png", or the numbers of a table's rows
  /// Returns likely mistakes, a line each, once all samples are read; empty if there can be none.
  std::function<std::vector<std::string>()> notes = {};
};

/// Options for particular kinds of sources.
struct ImportOptions {
  TableColumns columns;                 ///< for tables
  Reshaping reshaping;                  ///< for pictures
  bool keeps_jpeg = false;              ///< pictures are JPEG files, and are kept as such
  std::optional<int64_t> ignored = {};  ///< for masks: a value without a class, like 255
};

/// Opens one of these, depending on what it finds:
/// - a folder that training could read, including compressed IDX files: its `split`;
/// - a folder of folders with the pictures of one class each, sorted by name. They are reshaped as
///   requested; or kept, if all are JPEG files, and reshaped when they are loaded;
/// - a folder with `images` and `masks`: masked_pictures.h;
/// - a .csv or .tsv file, whose `columns` name what to learn;
/// - two files, images or rows, and `labels`, targets or masks: .npy arrays, or IDX.
/// Opening reads only the first valid picture. Throws Error: NotFound, InvalidInput or Corrupt,
/// naming the file and what to do.
ImportedSplit open_source(const std::filesystem::path& source, const std::filesystem::path& labels,
                          Split split, const ImportOptions& options = {});

}  // namespace dlflow::runtime
