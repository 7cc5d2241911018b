#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/data/dataset.h"

/// Which files of a folder hold a split (docs/user/data-format.md).
namespace dlflow::runtime {

struct SplitFiles {
  enum class Format {
    Binary,  ///< train.dlset
    Shards,  ///< train.shards.json and the train-00000-of-00008.dlset … that it names
    Idx,     ///< train-images-idx3-ubyte and train-labels-idx1-ubyte, as of MNIST
  };
  Format format = Format::Binary;
  std::vector<std::filesystem::path> files;  ///< the index of shards, and images, come first
};

/// The files of a split, in the first of the forms above that is there, or nothing. An ending .gz
/// of IDX files that unpacking left is fine. Throws Error{Corrupt} if an index cannot be read.
std::optional<SplitFiles> find_split(const std::filesystem::path& folder, Split split);

/// "train", "validation" or "test": what its .dlset files begin with.
const char* split_name(Split split);

/// Throws Error naming the file that is missing or damaged (see Proof).
Dataset read_split(const SplitFiles& split, Proof proof);

/// The files of a split; behind those of the training split those of validation.dlset or its
/// shards, if they are there. Throws Error as split_files, and InvalidInput if they stand beside
/// IDX files.
std::vector<SplitFiles> splits_to_read(const std::filesystem::path& folder, Split split);

/// The files of all of them.
std::vector<std::filesystem::path> files_of(const std::vector<SplitFiles>& splits);

/// As find_split; throws Error{NotFound} with the names that were looked for.
SplitFiles split_files(const std::filesystem::path& folder, Split split);

}  // namespace dlflow::runtime
