#include "engine/cli/data_overview.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/names.h"
#include "runtime/import/table.h"
#include "runtime/text/token_samples.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

/// The ranges of the targets of `dataset`, with the names in the file beside it.
std::vector<TargetRange> ranges_of(const Dataset& dataset, const fs::path& folder) {
  constexpr std::string_view kBegin = "target ";
  std::vector<TargetRange> ranges(dataset.num_targets);
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    for (size_t k = 0; k < ranges.size(); ++k) ranges[k].add(double(dataset.targets[i][k]));
  }
  size_t named = 0;
  for (const std::string& line : read_names(folder / kColumnNames)) {
    if (!line.starts_with(kBegin) || named == ranges.size()) continue;
    ranges[named++].name = line.substr(kBegin.size());
  }
  return ranges;
}

TokenText text_of(const Dataset& dataset, const fs::path& folder) {
  const Vocabulary vocabulary = read_vocabulary(dataset.tokenizer, folder);
  TokenText text{vocabulary.size(), text_bytes(dataset, vocabulary), {}};
  for (const uint32_t token : tokens_of(dataset, 0)) {
    const bool ends = token == vocabulary.end_of_text();
    text.first += ends ? kEndOfText : vocabulary.text_of(token);
  }
  return text;
}

}  // namespace

std::vector<SplitFiles> splits_at(const fs::path& path) {
  using Format = SplitFiles::Format;
  if (!fs::exists(path)) throw Error(Errc::NotFound, "there is no file or folder " + path.string());
  if (is_table(path)) {
    throw Error(Errc::InvalidInput, path.string() + " is a table; pack it first: dlflow data pack");
  }
  if (path.extension() == ".dlset") return {{Format::Binary, {path}}};
  if (path.string().ends_with(shard_index_name(""))) return {{Format::Shards, {path}}};
  std::vector<SplitFiles> splits;
  for (const Split split : {Split::Train, Split::Validation, Split::Test}) {
    if (auto found = find_split(path, split)) splits.push_back(std::move(*found));
  }
  if (splits.empty()) split_files(path, Split::Train);  // throws and lists the expected files
  return splits;
}

Overview overview(const SplitFiles& split) {
  Overview result;
  result.file = split.files[0];
  result.dataset = read_split(split, Proof::Structure);
  if (!result.dataset.tokenizer.empty()) {
    result.text = text_of(result.dataset, result.file.parent_path());
  }
  const bool has_classes = !result.text || result.dataset.has_text_classes();
  result.histogram.resize(has_classes ? result.dataset.num_classes : 1);
  const Labels& labels = result.dataset.labels;
  for (size_t i = 0; i < labels.size() && !result.dataset.has_masks; ++i) {
    ++result.histogram[labels[i]];
  }
  result.targets = ranges_of(result.dataset, result.file.parent_path());
  result.names = read_names(result.file.parent_path() / kClassNames);
  result.names.resize(result.histogram.size());
  if (split.format == SplitFiles::Format::Shards) {
    result.shards = read_shard_index(result.file);
    for (const Shard& shard : result.shards) {
      result.bytes += fs::file_size(result.file.parent_path() / shard.file);
    }
  } else {
    for (const fs::path& file : split.files) result.bytes += fs::file_size(file);
  }
  return result;
}

double bytes_per_token(const Overview& split) {
  return double(split.text->bytes) / double(num_tokens(split.dataset));
}

std::string description_of(const Overview& split) {
  const Dataset& data = split.dataset;
  if (split.text) {
    const uint32_t classes = data.has_text_classes() ? data.num_classes : 0;
    return describe_tokens(
        {data.size(), data.shape.width, data.has_texts(), num_tokens(data), classes},
        split.text->vocabulary, bytes_per_token(split));
  }
  const auto& [channels, height, width] = data.shape;
  const std::string size = height == 1 && width == 1
                               ? std::to_string(channels)
                               : fmt::format("{} x {} x {}", channels, height, width);
  const std::string learnt =
      data.num_targets > 0
          ? "with " + plural(data.num_targets, "target")
          : fmt::format("{} {} classes", data.has_masks ? "with masks of" : "in", data.num_classes);
  const PixelType type = pixel_type_of(data);
  const char* const kind = type == PixelType::Float  ? "floats"
                           : type == PixelType::Jpeg ? "bytes from JPEG"
                                                     : "bytes";
  return fmt::format("{} samples of {} {} {}", format_count(data.size()), size, kind, learnt);
}

std::string describe_tokens(const TokenCounts& counts, uint64_t vocabulary,
                            double bytes_per_token) {
  const double mean = double(counts.tokens) / double(counts.samples);
  const std::string classes =
      counts.classes > 0 ? fmt::format(", in {} classes", counts.classes) : "";
  return fmt::format("{} samples of {}{} tokens{}{}, vocabulary {}, {:.2f} bytes per token",
                     format_count(counts.samples), counts.unequal ? "up to " : "",
                     format_count(counts.length),
                     counts.unequal ? fmt::format(", {:.1f} on average", mean) : "", classes,
                     format_count(vocabulary), bytes_per_token);
}

}  // namespace dlflow
