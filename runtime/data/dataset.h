#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

/// Labelled images in memory. Shape letters: N samples, C channels, H height, W width.
namespace dlflow::runtime {

struct ImageShape {
  uint32_t channels = 0, height = 0, width = 0;

  size_t num_values() const { return size_t(channels) * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// A whole split: N images of one shape and their labels, each below num_classes.
struct Dataset {
  ImageShape shape;
  uint32_t num_classes = 0;
  std::variant<std::vector<uint8_t>, std::vector<float>> pixels;  ///< (N, C, H, W)
  std::vector<uint32_t> labels;                                   ///< (N)

  size_t size() const { return labels.size(); }
  bool operator==(const Dataset&) const = default;
};

enum class Split { Train, Test };

/// Reads a split from `folder`: train.dlset or test.dlset (docs/data-format.md), or the pair of IDX
/// files that MNIST and its descendants use (train-images-idx3-ubyte and train-labels-idx1-ubyte,
/// t10k-... for Test; an ending .gz that unpacking left is fine).
/// Throws Error: NotFound with the names that were looked for, Corrupt with file and reason.
Dataset open_dataset(const std::filesystem::path& folder, Split split);

}  // namespace dlflow::runtime
