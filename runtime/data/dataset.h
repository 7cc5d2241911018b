#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/data/encoded_images.h"
#include "runtime/data/rows.h"

/// Labelled images. Shape letters: N samples, C channels, H height, W width.
namespace dlflow::runtime {

struct ImageShape {
  uint32_t channels = 0, height = 0, width = 0;

  size_t num_values() const { return size_t(channels) * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Of the row of a sample: those of its image, and of its mask, if it has one.
constexpr size_t values_of_row(const ImageShape& shape, bool has_mask) {
  return (size_t(shape.channels) + (has_mask ? 1 : 0)) * shape.height * shape.width;
}

struct PictureSize {
  uint32_t width = 0, height = 0;

  bool operator==(const PictureSize&) const = default;
};

/// The changes of each picture on its way to the size that all have, in this order.
struct Reshaping {
  std::optional<uint32_t> shorter_side = {};  ///< resize to it and keep the ratio; or
  std::optional<PictureSize> size = {};       ///< resize to it
  std::optional<PictureSize> crop = {};       ///< cut this out of the middle

  bool given() const { return shorter_side || size || crop; }
  bool operator==(const Reshaping&) const = default;
};

/// In a mask: the pixel is of no class, and counts for nothing.
constexpr uint32_t kNoClass = 255;

/// A value of a mask that may be: a whole number below `num_classes`, or kNoClass.
template <typename T>
constexpr bool is_class(T value, uint32_t num_classes) {
  return value == T(kNoClass) || (value >= 0 && value < T(num_classes) && T(int(value)) == value);
}

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

/// A whole split: N images of one shape with their labels, each below num_classes; or, of data to
/// learn numbers from, with T targets each. Targets that are the shares of classes (soft labels)
/// have labels beside them: the largest share's. The rows of a table are images of (F, 1, 1). Of
/// data to learn masks from, the row of a sample is (C + 1, H, W): its image, then the class of
/// each pixel, below num_classes or kNoClass. Or the images are kept as JPEG files, of any size,
/// which are decoded, reshaped and cut to `shape` when they are looked at (jpeg_samples.h). Or they
/// are texts of unequal length, each token in as many bytes as the number of tokens needs, and
/// `shape` is that of the longest there may be. Of tokens, num_classes is the size of the
/// vocabulary, unless each text has a class.
struct Dataset {
  ImageShape shape;
  uint32_t num_classes = 0;
  std::variant<Images<uint8_t>, Images<float>, EncodedImages> pixels;  ///< (N)
  Labels labels;               ///< (N), or none; with masks all 0
  uint32_t num_targets = 0;    ///< T; 0: the samples have labels alone
  Rows<float> targets = {};    ///< (N) rows of T, or none
  size_t num_validation = 0;   ///< of the last samples, which training only measures itself with
  std::string tokenizer = {};  ///< Vocabulary::id() of samples that are tokens; else empty
  bool has_masks = false;
  Reshaping reshaping = {};  ///< of JPEG files, and then the middle of (H, W) is cut out
  uint32_t token_bytes = 0;  ///< of a token of texts of unequal length; 0: there are none
  uint32_t vocabulary = 0;   ///< of texts that have a class each; 0: others

  /// Samples have sizes of their own.
  bool is_encoded() const { return std::holds_alternative<EncodedImages>(pixels); }

  /// Samples are texts of 1 to `shape.width` tokens each.
  bool has_texts() const { return token_bytes > 0; }

  /// Each text has a label of its own, below num_classes.
  bool has_text_classes() const { return vocabulary > 0; }

  /// Of data whose samples are tokens: how many there are.
  uint32_t num_kinds_of_token() const { return vocabulary > 0 ? vocabulary : num_classes; }

  /// The number of tokens of a text.
  size_t length_of(size_t sample) const {
    return std::get<EncodedImages>(pixels)[sample].size() / token_bytes;
  }

  size_t size() const { return num_targets > 0 ? targets.size() : labels.size(); }

  /// Of the mask of a sample; 0: there are none.
  size_t values_of_mask() const { return has_masks ? size_t(shape.height) * shape.width : 0; }

  /// Gives each sample the class of its largest target as a label, of equal ones the first.
  void take_targets_as_shares();

  /// Those samples of a whole split.
  Dataset select(const Subset& part) const;

  /// Without those for validation.
  Dataset without_validation() const;
  bool operator==(const Dataset&) const = default;
};

/// Of each token, where there are `vocabulary` of them: 1, 2 or 4.
constexpr uint32_t token_bytes_of(uint32_t vocabulary) {
  return vocabulary <= 1u << 8 ? 1 : vocabulary <= 1u << 16 ? 2 : 4;
}

/// The token that begins at `bytes`, little-endian.
inline uint32_t token_at(const uint8_t* bytes, uint32_t token_bytes) {
  uint32_t token = 0;
  std::memcpy(&token, bytes, token_bytes);
  return token;
}

/// Of all samples of `dataset`, which are tokens.
uint64_t num_tokens(const Dataset& dataset);

/// \param values  (N, C, H, W)
template <typename T>
Dataset make_dataset(const ImageShape& shape, uint32_t num_classes, std::vector<T> values,
                     std::vector<uint32_t> labels) {
  return {shape, num_classes, Images<T>(std::move(values), shape.num_values()), std::move(labels)};
}

/// The same with targets. \param targets  (N, T)
template <typename T>
Dataset make_dataset(const ImageShape& shape, std::vector<T> values, std::vector<float> targets,
                     uint32_t num_targets) {
  return {shape, 0,           Images<T>(std::move(values), shape.num_values()),
          {},    num_targets, Rows<float>(std::move(targets), num_targets)};
}

enum class Split { Train, Validation, Test };

/// The part of a .dlset that is proven before it is used.
enum class Proof {
  Hash,       ///< that it is what was written: all of it is read once
  Structure,  ///< that its header, its length and its labels agree
};

/// Reads a split from `folder`, in any form of split_files.h; behind the training split that for
/// validation, if there is one. Images of .dlset files stay there and
/// are read when they are looked at.
/// Throws Error: NotFound with the names that were looked for, Corrupt with file and reason.
Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof = Proof::Hash);

}  // namespace dlflow::runtime
