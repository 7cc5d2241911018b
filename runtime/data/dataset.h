#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/data/rows.h"

/// Labelled images. Shape letters: N samples, C channels, H height, W width.
namespace dlflow::runtime {

struct ImageShape {
  uint32_t channels = 0, height = 0, width = 0;

  size_t num_values() const { return size_t(channels) * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Images of one size, wherever each of them lies.
template <typename T>
using Images = Rows<T>;

/// A number for each sample, wherever it lies: as a byte in IDX files, else in four.
class Labels {
 public:
  Labels() = default;
  Labels(std::vector<uint32_t> labels) : labels_(Rows<uint32_t>(std::move(labels), 1)) {}

  /// Of rows of one value.
  explicit Labels(Rows<uint8_t> labels) : labels_(std::move(labels)) {}
  explicit Labels(Rows<uint32_t> labels) : labels_(std::move(labels)) {}

  size_t size() const {
    return std::visit([](const auto& labels) { return labels.size(); }, labels_);
  }
  uint32_t operator[](size_t sample) const {
    return std::visit([&](const auto& labels) { return uint32_t(labels[sample][0]); }, labels_);
  }
  std::vector<uint32_t> copy() const;

  /// Adds all of `other`, which lie in as many bytes each.
  void add(const Labels& other);
  Labels select(const Subset& part) const;

  bool operator==(const Labels& other) const { return copy() == other.copy(); }

 private:
  std::variant<Rows<uint32_t>, Rows<uint8_t>> labels_;
};

/// A whole split: N images of one shape and their labels, each below num_classes.
struct Dataset {
  ImageShape shape;
  uint32_t num_classes = 0;
  std::variant<Images<uint8_t>, Images<float>> pixels;  ///< (N)
  Labels labels;                                        ///< (N)

  size_t size() const { return labels.size(); }

  /// Those samples of a whole split.
  Dataset select(const Subset& part) const;
  bool operator==(const Dataset&) const = default;
};

/// \param values  (N, C, H, W)
template <typename T>
Dataset make_dataset(const ImageShape& shape, uint32_t num_classes, std::vector<T> values,
                     std::vector<uint32_t> labels) {
  return {shape, num_classes, Images<T>(std::move(values), shape.num_values()), std::move(labels)};
}

enum class Split { Train, Test };

/// The part of a .dlset that is proven before it is used.
enum class Proof {
  Hash,       ///< that it is what was written: all of it is read once
  Structure,  ///< that its header, its length and its labels agree
};

/// Reads a split from `folder`, in any form of split_files.h. Images of .dlset files stay there and
/// are read when they are looked at.
/// Throws Error: NotFound with the names that were looked for, Corrupt with file and reason.
Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof = Proof::Hash);

}  // namespace dlflow::runtime
