#include "runtime/data/sharded_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse_json.h"
#include "base/units.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/file_writer.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kIndexVersion = 1;
constexpr std::string_view kIndexEnding = ".shards.json";
constexpr uint64_t kMaxShards = 99999;  // limit of the five digits in names

std::string shard_name(const std::string& name, uint64_t number, uint64_t num_shards) {
  return fmt::format("{}-{:05}-of-{:05}.dlset", name, number, num_shards);
}

std::string name_of(const fs::path& index) {
  const std::string file = index.filename().string();
  return file.substr(0, file.size() - std::min(file.size(), kIndexEnding.size()));
}

ShardIndex read_entries(const Json& json, const fs::path& file) {
  if (json.at("version") != kIndexVersion) {
    throw_corrupt(file,
                  fmt::format("has version {} of the format, but this dlflow reads version {}",
                              json.at("version").dump(), kIndexVersion));
  }
  ShardIndex index;
  for (const Json& shard : json.at("shards")) {
    index.push_back({shard.at("file").get<std::string>(), shard.at("samples").get<uint64_t>(),
                     shard.at("sha256").get<std::string>()});
  }
  return index;
}

bool all_fit(uint64_t bytes, const SampleSource& source, uint64_t num_shards) {
  const std::vector<uint64_t> sizes = shard_sizes(source.size(), num_shards);
  size_t first = 0;
  return std::ranges::all_of(sizes, [&](uint64_t count) {
    return binary_dataset_bytes(source, std::exchange(first, first + count), count) <= bytes;
  });
}

/// The same if samples differ in size; at most a 64th more than the fewest.
uint64_t shards_of_encoded(uint64_t bytes, const SampleSource& source) {
  const uint64_t all = binary_dataset_bytes(source, 0, source.size());
  uint64_t num_shards = std::max<uint64_t>(1, all / bytes);
  while (num_shards < source.size() && !all_fit(bytes, source, num_shards)) {
    num_shards = std::min<uint64_t>(source.size(), num_shards + 1 + num_shards / 64);
  }
  return std::min<uint64_t>(num_shards, source.size());
}

}  // namespace

std::string shard_index_name(const std::string& name) { return name + std::string(kIndexEnding); }

std::string format_shard_index(const ShardIndex& index) {
  Json shards = Json::array();
  for (const Shard& shard : index) {
    shards.push_back(
        {{"file", shard.file}, {"samples", shard.num_samples}, {"sha256", shard.sha256}});
  }
  return Json{{"version", kIndexVersion}, {"shards", shards}}.dump(1) + "\n";
}

ShardIndex parse_shard_index(std::string_view content, const fs::path& file) {
  ShardIndex index;
  try {
    index = read_entries(parse_json(content), file);
  } catch (const Json::exception&) {
    throw_corrupt(file, "is not an index of shards; copy it again");
  }
  if (index.empty() || index.size() > kMaxShards) throw_corrupt(file, "names no shards");
  for (size_t i = 0; i < index.size(); ++i) {
    const std::string expected = shard_name(name_of(file), i, index.size());
    if (index[i].file == expected) continue;
    throw_corrupt(file, "names " + Json(index[i].file).dump() + " where " + expected + " belongs");
  }
  return index;
}

ShardIndex read_shard_index(const fs::path& file) {
  return parse_shard_index(read_file(file), file);
}

void append_shard(Dataset& whole, const Dataset& part, const fs::path& part_file) {
  if (part.shape != whole.shape || part.num_classes != whole.num_classes ||
      part.pixels.index() != whole.pixels.index() || part.num_targets != whole.num_targets ||
      part.has_masks != whole.has_masks || part.token_bytes != whole.token_bytes ||
      part.vocabulary != whole.vocabulary || part.reshaping != whole.reshaping) {
    throw_corrupt(part_file, "has other images, classes, masks or targets than the data before it");
  }
  if (part.tokenizer != whole.tokenizer) {
    throw_corrupt(part_file, "has tokens of another tokenizer than the data before it");
  }
  std::visit(
      [&](auto& images) {
        images.add(std::get<std::remove_reference_t<decltype(images)>>(part.pixels));
      },
      whole.pixels);
  if (part.num_targets > 0) {
    whole.targets.add(part.targets);
  } else {
    whole.labels.add(part.labels);
  }
}

void append_validation(Dataset& whole, Dataset part, const fs::path& part_file) {
  whole.num_classes = part.num_classes = std::max(whole.num_classes, part.num_classes);
  append_shard(whole, part, part_file);
  whole.num_validation += part.size();
}

BinaryHeader require_shard(const fs::path& file, const Shard& shard) {
  const fs::path path = file.parent_path() / shard.file;
  if (!fs::exists(path)) {
    throw Error(Errc::NotFound, path.string() + ": this shard is missing; " +
                                    file.filename().string() + " names it: copy it again");
  }
  BinaryHeader header = read_binary_header(path);
  if (header.sha256 != shard.sha256 || header.num_samples != shard.num_samples) {
    throw_corrupt(path, "is not the shard that " + file.filename().string() +
                            " names: swapped with another, or damaged; copy it again");
  }
  return header;
}

Dataset read_shard(const fs::path& file, const Shard& shard, Proof proof) {
  require_shard(file, shard);
  return read_binary_dataset(file.parent_path() / shard.file, proof);
}

Dataset read_sharded_dataset(const fs::path& file, Proof proof) {
  const ShardIndex index = read_shard_index(file);
  Dataset whole = read_shard(file, index[0], proof);
  for (size_t i = 1; i < index.size(); ++i) {
    append_shard(whole, read_shard(file, index[i], proof), file.parent_path() / index[i].file);
  }
  return whole;
}

std::vector<uint64_t> shard_sizes(uint64_t num_samples, uint64_t num_shards) {
  if (num_shards < 1 || num_shards > std::min(num_samples, kMaxShards)) {
    throw Error(Errc::InvalidInput,
                fmt::format("{} samples cannot be divided into {} shards; choose 1 to {}",
                            num_samples, num_shards, std::min(num_samples, kMaxShards)));
  }
  std::vector<uint64_t> sizes(num_shards, num_samples / num_shards);
  for (uint64_t i = 0; i < num_samples % num_shards; ++i) ++sizes[i];
  return sizes;
}

uint64_t shards_of_at_most(uint64_t bytes, const SampleSource& source) {
  const uint64_t num_samples = source.size();
  const auto& sizes = source.encoded_sizes;
  const size_t largest = size_t(std::ranges::max_element(sizes) - sizes.begin());
  const uint64_t least = binary_dataset_bytes(source, sizes.empty() ? 0 : largest, 1);
  if (bytes < least) {
    throw Error(Errc::InvalidInput, "a shard of " + format_size(bytes) +
                                        " is too small: one sample takes " + format_size(least));
  }
  if (!sizes.empty()) return shards_of_encoded(bytes, source);
  uint64_t fits = 1, too_many = num_samples + 1;
  while (fits + 1 < too_many) {
    const uint64_t middle = fits + (too_many - fits) / 2;
    (binary_dataset_bytes(source, 0, middle) <= bytes ? fits : too_many) = middle;
  }
  return std::max<uint64_t>(1, (num_samples + fits - 1) / fits);
}

ShardIndex write_sharded_dataset(const fs::path& folder, const std::string& name,
                                 const SampleSource& source, uint64_t num_shards) {
  ShardIndex index;
  size_t first = 0;
  for (const uint64_t count : shard_sizes(source.size(), num_shards)) {
    const std::string file = shard_name(name, index.size(), num_shards);
    try {
      const BinaryHeader header = write_binary_dataset(folder / file, source, first, count);
      index.push_back({file, count, header.sha256});
    } catch (...) {
      std::error_code ignored;
      for (const Shard& shard : index) fs::remove(folder / shard.file, ignored);
      throw;
    }
    first += count;
  }
  FileWriter file(folder / shard_index_name(name));
  file.write(format_shard_index(index));
  file.publish();
  return index;
}

}  // namespace dlflow::runtime
