#include "runtime/data/split_files.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/idx.h"
#include "runtime/data/sharded_dataset.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// Returns FOLDER/NAME or FOLDER/NAME.gz, whichever exists. Unpacked files may end in .gz, too.
std::optional<fs::path> find(const fs::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    if (fs::exists(folder / candidate)) return folder / candidate;
  }
  return std::nullopt;
}

std::string idx_prefix(Split split) { return split == Split::Train ? "train" : "t10k"; }

}  // namespace

const char* split_name(Split split) {
  switch (split) {
    case Split::Train:
      return "train";
    case Split::Validation:
      return "validation";
    case Split::Test:
      break;
  }
  return "test";
}

std::optional<SplitFiles> find_split(const fs::path& folder, Split split) {
  const std::string name = split_name(split);
  using Format = SplitFiles::Format;
  const fs::path binary = folder / (name + ".dlset"), index = folder / shard_index_name(name);
  if (fs::exists(binary)) return SplitFiles{Format::Binary, {binary}};
  if (fs::exists(index)) {
    SplitFiles shards{Format::Shards, {index}};
    for (const Shard& shard : read_shard_index(index)) shards.files.push_back(folder / shard.file);
    return shards;
  }
  if (split == Split::Validation) return std::nullopt;
  const auto images = find(folder, idx_prefix(split) + "-images-idx3-ubyte");
  const auto labels = find(folder, idx_prefix(split) + "-labels-idx1-ubyte");
  if (images && labels) return SplitFiles{Format::Idx, {*images, *labels}};
  return std::nullopt;
}

bool is_data_set(const fs::path& folder) {
  constexpr Split kAll[] = {Split::Train, Split::Validation, Split::Test};
  return std::ranges::any_of(kAll, [&](Split s) { return find_split(folder, s).has_value(); });
}

Dataset read_split(const SplitFiles& split, Proof proof) {
  switch (split.format) {
    case SplitFiles::Format::Binary:
      return read_binary_dataset(split.files[0], proof);
    case SplitFiles::Format::Shards:
      return read_sharded_dataset(split.files[0], proof);
    case SplitFiles::Format::Idx:
      break;
  }
  return read_idx_pair(split.files[0], split.files[1]);
}

std::vector<SplitFiles> splits_to_read(const fs::path& folder, Split split) {
  std::vector<SplitFiles> splits = {split_files(folder, split)};
  if (split != Split::Train) return splits;
  auto validation = find_split(folder, Split::Validation);
  if (!validation) return splits;
  if (splits[0].format == SplitFiles::Format::Idx) {
    throw Error(Errc::InvalidInput, validation->files[0].string() +
                                        " is beside IDX files for training; pack these, too: "
                                        "dlflow data pack " +
                                        folder.string() + " -o FOLDER");
  }
  splits.push_back(std::move(*validation));
  return splits;
}

std::vector<fs::path> files_of(const std::vector<SplitFiles>& splits) {
  std::vector<fs::path> files;
  for (const SplitFiles& split : splits) {
    files.insert(files.end(), split.files.begin(), split.files.end());
  }
  return files;
}

SplitFiles split_files(const fs::path& folder, Split split) {
  if (auto found = find_split(folder, split)) return std::move(*found);
  const std::string name = split_name(split), idx = idx_prefix(split);
  throw Error(Errc::NotFound,
              folder.string() + ": no " + (split == Split::Train ? "training" : "test") +
                  " data: neither " + name + ".dlset nor " + shard_index_name(name) + " nor " +
                  idx + "-images-idx3-ubyte and " + idx +
                  "-labels-idx1-ubyte are there; `dlflow data pack SOURCE -o FOLDER --split " +
                  name + "` makes them");
}

}  // namespace dlflow::runtime
