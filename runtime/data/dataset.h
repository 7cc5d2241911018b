#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

/// Labelled images. Shape letters: N samples, C channels, H height, W width.
namespace dlflow::runtime {

struct ImageShape {
  uint32_t channels = 0, height = 0, width = 0;

  size_t num_values() const { return size_t(channels) * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Images of one size, wherever each of them lies: in a vector, in a mapped file. Copies of this
/// object share the memory.
template <typename T>
class Images {
 public:
  Images() = default;

  /// All of `values` (N, C, H, W), where an image is `image_size` of them.
  Images(std::vector<T> values, size_t image_size) : image_size_(image_size) {
    const size_t count = image_size == 0 ? 0 : values.size() / image_size;
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    add(owner->data(), count, image_size, owner);
  }

  /// Adds `count` images that lie one behind the other, in memory that `owner` keeps.
  void add(const T* first, size_t count, size_t image_size, std::shared_ptr<const void> owner) {
    DLFLOW_CHECK(image_size_ == image_size || images_.empty());
    image_size_ = image_size;
    images_.reserve(images_.size() + count);
    for (size_t i = 0; i < count; ++i) images_.push_back(first + i * image_size);
    owners_.push_back(std::move(owner));
  }

  /// Adds all images of `other`, which are of the same size.
  void add(const Images& other) {
    DLFLOW_CHECK(image_size_ == other.image_size_ || images_.empty());
    image_size_ = other.image_size_;
    images_.insert(images_.end(), other.images_.begin(), other.images_.end());
    owners_.insert(owners_.end(), other.owners_.begin(), other.owners_.end());
  }

  /// Those of `samples`, in that order.
  Images select(std::span<const uint32_t> samples) const {
    Images chosen;
    chosen.image_size_ = image_size_;
    chosen.owners_ = owners_;
    chosen.images_.reserve(samples.size());
    for (const uint32_t sample : samples) chosen.images_.push_back(images_[sample]);
    return chosen;
  }

  size_t size() const { return images_.size(); }
  std::span<const T> operator[](size_t sample) const { return {images_[sample], image_size_}; }

  bool operator==(const Images& other) const {
    if (size() != other.size()) return false;
    for (size_t i = 0; i < size(); ++i) {
      const std::span<const T> a = (*this)[i], b = other[i];
      if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
    }
    return true;
  }

 private:
  size_t image_size_ = 0;  // in values
  std::vector<const T*> images_;
  std::vector<std::shared_ptr<const void>> owners_;
};

/// A whole split: N images of one shape and their labels, each below num_classes.
struct Dataset {
  ImageShape shape;
  uint32_t num_classes = 0;
  std::variant<Images<uint8_t>, Images<float>> pixels;  ///< (N)
  std::vector<uint32_t> labels;                         ///< (N)

  size_t size() const { return labels.size(); }
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
