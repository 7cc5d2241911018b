#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/data/dataset.h"

/// Finds the files of a split in a folder (docs/user/data-format.md).
namespace dlflow::runtime {

struct SplitFiles {
  enum class Format {
    Binary,  ///< train.dlset
    Shards,  ///< train.shards.json and the files train-00000-of-00008.dlset … named in it
    Idx,     ///< train-images-idx3-ubyte and train-labels-idx1-ubyte, as in MNIST
  };
  Format format = Format::Binary;
  std::vector<std::filesystem::path> files;  ///< the index of shards, or the images, come first
};

/// Returns the files of a split, in the first of these formats that exists, or nothing. Unpacked
/// IDX files may still end in .gz. Throws Error{Corrupt} if an index cannot be read.
std::optional<SplitFiles> find_split(const std::filesystem::path& folder, Split split);

/// Whether `folder` has any split, so that it is a data set.
bool is_data_set(const std::filesystem::path& folder);

/// Returns "train", "validation" or "test": the beginning of its .dlset file names.
const char* split_name(Split split);

/// Throws Error naming the file that is missing or damaged (see Proof).
Dataset read_split(const SplitFiles& split, Proof proof);

/// Returns the files of a split; the training split is followed by validation.dlset or its shards,
/// if they exist. Throws Error like split_files, and InvalidInput if they are next to IDX files.
std::vector<SplitFiles> splits_to_read(const std::filesystem::path& folder, Split split);

/// Returns the files of all `splits`.
std::vector<std::filesystem::path> files_of(const std::vector<SplitFiles>& splits);

/// Like find_split; throws Error{NotFound} with the names that were tried.
SplitFiles split_files(const std::filesystem::path& folder, Split split);

}  // namespace dlflow::runtime
