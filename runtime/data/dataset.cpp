#include "runtime/data/dataset.h"

#include "base/error.h"
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

Dataset Dataset::select(const Subset& part) const {
  Dataset chosen{shape, num_classes, {}, {}, num_targets, {}};
  if (num_targets > 0) {
    chosen.targets = targets.select(part);
  } else {
    chosen.labels = labels.select(part);
  }
  std::visit([&](const auto& images) { chosen.pixels = images.select(part); }, pixels);
  return chosen;
}

Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof) {
  Dataset dataset = read_split(split_files(folder, split), proof);
  if (dataset.size() == 0 || dataset.shape.num_values() == 0) {
    throw Error(Errc::InvalidInput, folder.string() + ": the data set holds no images");
  }
  return dataset;
}

}  // namespace dlflow::runtime
