#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_format.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/dataset.h"

/// A split in several files: shards NAME-00000-of-00008.dlset …, each a dataset of its own, and an
/// index NAME.shards.json with their order and hashes. docs/user/dlset.md describes both.
namespace dlflow::runtime {

struct Shard {
  std::string file;  ///< in the folder of the index
  uint64_t num_samples = 0;
  std::string sha256;  ///< as in its header

  bool operator==(const Shard&) const = default;
};

using ShardIndex = std::vector<Shard>;

/// Returns "train.shards.json".
std::string shard_index_name(const std::string& name);

/// Returns the content of an index. The inverse throws Error{Corrupt}, "`file`: reason", unless
/// `file`, NAME.shards.json, lists all shards with their right names, in order.
std::string format_shard_index(const ShardIndex& index);
ShardIndex parse_shard_index(std::string_view content, const std::filesystem::path& file);
ShardIndex read_shard_index(const std::filesystem::path& file);

/// Returns the header of a shard. Throws Error like read_shard, unless it matches the index `file`.
BinaryHeader require_shard(const std::filesystem::path& file, const Shard& shard);

/// Adds the samples of the shard `part`. Throws Error{Corrupt} naming `part_file` unless shape,
/// pixels, classes and number of targets are the same.
void append_shard(Dataset& whole, const Dataset& part, const std::filesystem::path& part_file);

/// Appends the samples of a validation split to the training split `whole`. The number of classes
/// is the larger of both. Throws Error like append_shard.
void append_validation(Dataset& whole, Dataset part, const std::filesystem::path& part_file);

/// Reads one shard of the index `file`. Throws Error naming the shard: NotFound if it does not
/// exist, Corrupt if it does not match the index, or (see Proof) is damaged.
Dataset read_shard(const std::filesystem::path& file, const Shard& shard, Proof proof);

/// Reads all shards as one dataset, as if it had been written to one file.
Dataset read_sharded_dataset(const std::filesystem::path& file, Proof proof = Proof::Hash);

/// Returns the number of samples in each of `num_shards` shards; they differ by at most one. Throws
/// Error{InvalidInput} if there are more shards than samples.
std::vector<uint64_t> shard_sizes(uint64_t num_samples, uint64_t num_shards);

/// The fewest shards of at most `bytes` each. Throws Error{InvalidInput} if one sample is larger.
uint64_t shards_of_at_most(uint64_t bytes, const SampleSource& source);

/// Writes the shards and then the index NAME.shards.json into `folder`. If one cannot be written,
/// all shards are removed.
ShardIndex write_sharded_dataset(const std::filesystem::path& folder, const std::string& name,
                                 const SampleSource& source, uint64_t num_shards);

}  // namespace dlflow::runtime
