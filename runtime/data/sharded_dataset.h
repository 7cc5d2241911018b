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
/// index NAME.shards.json that has their order and hashes. docs/user/dlset.md describes both.
namespace dlflow::runtime {

struct Shard {
  std::string file;  ///< in the folder of the index
  uint64_t num_samples = 0;
  std::string sha256;  ///< as its header has it

  bool operator==(const Shard&) const = default;
};

using ShardIndex = std::vector<Shard>;

/// "train.shards.json"
std::string shard_index_name(const std::string& name);

/// The content of an index, and its inverse, which throws Error{Corrupt}, "`file`: reason", unless
/// the shards of `file`, NAME.shards.json, are there with their right names, in order.
std::string format_shard_index(const ShardIndex& index);
ShardIndex parse_shard_index(std::string_view content, const std::filesystem::path& file);
ShardIndex read_shard_index(const std::filesystem::path& file);

/// The header of a shard. Throws Error as read_shard, unless it is as the index `file` says.
BinaryHeader require_shard(const std::filesystem::path& file, const Shard& shard);

/// Adds the samples of the shard `part`. Throws Error{Corrupt} naming `part_file` unless it is of
/// the same shape, pixels, classes and number of targets.
void append_shard(Dataset& whole, const Dataset& part, const std::filesystem::path& part_file);

/// Adds the samples of a validation split behind those of the training split `whole`. There are as
/// many classes as the one of both that has more says. Throws Error as append_shard.
void append_validation(Dataset& whole, Dataset part, const std::filesystem::path& part_file);

/// One shard of the index `file`. Throws Error naming the shard: NotFound if it is not there,
/// Corrupt if it is another one than the index says, or (see Proof) damaged.
Dataset read_shard(const std::filesystem::path& file, const Shard& shard, Proof proof);

/// All of them as one dataset, the same as if it had been written to one file.
Dataset read_sharded_dataset(const std::filesystem::path& file, Proof proof = Proof::Hash);

/// Number of samples in shard `number` of `num_shards`: numbers that differ by one at most.
/// Throws Error{InvalidInput} if there are more shards than samples.
std::vector<uint64_t> shard_sizes(uint64_t num_samples, uint64_t num_shards);

/// The fewest shards of at most `bytes` each. Throws Error{InvalidInput} if one sample is larger.
uint64_t shards_of_at_most(uint64_t bytes, const SampleSource& source);

/// Writes the shards and then the index NAME.shards.json into `folder`. If one cannot be written,
/// no shard stays.
ShardIndex write_sharded_dataset(const std::filesystem::path& folder, const std::string& name,
                                 const SampleSource& source, uint64_t num_shards);

}  // namespace dlflow::runtime
