#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/import/sources.h"
#include "runtime/import/split_by_name.h"

/// Writes splits of a data set, with the names of classes and columns beside them.
namespace dlflow::runtime {

/// The source of a data set, and its folder.
struct Packing {
  std::filesystem::path source, labels;  ///< as for open_source()
  std::filesystem::path output;
  Split split = Split::Train;
  SplitShares shares = {};   ///< or several splits
  uint64_t shards = 0;       ///< number of files of a split; 0: one .dlset
  uint64_t shard_bytes = 0;  ///< or their maximum size; 0: none
  ImportOptions import = {};
  std::vector<std::string> sizes = {};  ///< of pictures, as in columns.txt: "resize 64"

  void add_size(const std::string& line);
};

/// A split that has been written.
struct WrittenSplit {
  std::filesystem::path file;
  uint64_t samples = 0, shards = 0;
  std::vector<std::filesystem::path> files = {};  ///< including shards
};

struct PackedSplits {
  std::vector<WrittenSplit> splits;
  SampleSource source;             ///< of all splits together
  std::vector<std::string> notes;  ///< likely mistakes, a line each
};

using NamedSources = std::vector<std::pair<Split, SampleSource>>;

/// Throws Error{InvalidInput} if a split of `packing` already exists, or if its shares leave no
/// samples for training.
void require_new_splits(const Packing& packing);

/// Writes all splits to the folder, which is made if necessary, with the names of `classes` and
/// `columns`; if one fails, removes the others. Throws Error{InvalidInput} if the folder's other
/// splits have other names.
std::vector<WrittenSplit> write_splits(const Packing& packing, const NamedSources& sources,
                                       const std::vector<std::string>& classes,
                                       const std::vector<std::string>& columns = {});

/// Packs the source. If the folder has another split, its classes apply, and for tables its columns
/// with their codings, unless the options name others. Throws Error: InvalidInput for samples that
/// cannot be packed, and as open_source(); nothing is then written.
PackedSplits pack(Packing packing);

}  // namespace dlflow::runtime
