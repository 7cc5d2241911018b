#include "runtime/data/dataset.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/split_files.h"

namespace dlflow::runtime {

std::vector<uint32_t> Labels::copy() const {
  std::vector<uint32_t> labels(size());
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = (*this)[i];
  return labels;
}

void Labels::add(const Labels& other) {
  std::visit([&]<typename T>(T& labels) { labels.add(std::get<T>(other.labels_)); }, labels_);
}

Labels Labels::select(const Subset& part) const {
  return std::visit([&](const auto& labels) { return Labels(labels.select(part)); }, labels_);
}

void Dataset::take_targets_as_shares() {
  std::vector<uint32_t> largest(targets.size());
  for (size_t i = 0; i < largest.size(); ++i) {
    const auto shares = targets[i];
    largest[i] = uint32_t(std::ranges::max_element(shares) - shares.begin());
  }
  labels = std::move(largest);
  num_classes = num_targets;
}

Dataset Dataset::select(const Subset& part) const {
  Dataset chosen{shape, num_classes, {}, {}, num_targets, {}};
  chosen.tokenizer = tokenizer;
  chosen.has_masks = has_masks;
  chosen.reshaping = reshaping;
  chosen.token_bytes = token_bytes;
  chosen.vocabulary = vocabulary;
  if (num_targets > 0) chosen.targets = targets.select(part);
  if (labels.size() > 0) chosen.labels = labels.select(part);
  std::visit([&](const auto& images) { chosen.pixels = images.select(part); }, pixels);
  return chosen;
}

Dataset Dataset::without_validation() const {
  if (num_validation == 0) return *this;
  const auto last = std::make_shared<std::vector<uint32_t>>(num_validation);
  std::iota(last->begin(), last->end(), uint32_t(size() - num_validation));
  return select(Subset::all_but({*last, last}, size()));
}

uint64_t num_tokens(const Dataset& dataset) {
  if (!dataset.has_texts()) return dataset.size() * dataset.shape.num_values();
  uint64_t tokens = 0;
  for (size_t sample = 0; sample < dataset.size(); ++sample) tokens += dataset.length_of(sample);
  return tokens;
}

Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof) {
  const std::vector<SplitFiles> splits = splits_to_read(folder, split);
  Dataset dataset = read_split(splits[0], proof);
  if (splits.size() > 1) {
    append_validation(dataset, read_split(splits[1], proof), splits[1].files[0]);
  }
  if (dataset.size() == 0 || dataset.shape.num_values() == 0) {
    throw Error(Errc::InvalidInput, folder.string() + ": the data set holds no images");
  }
  return dataset;
}

}  // namespace dlflow::runtime
