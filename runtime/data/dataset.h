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

/// The number of values in a sample's row: those of its image, and of its mask, if it has one.
constexpr size_t values_of_row(const ImageShape& shape, bool has_mask) {
  return (size_t(shape.channels) + (has_mask ? 1 : 0)) * shape.height * shape.width;
}

struct PictureSize {
  uint32_t width = 0, height = 0;

  bool operator==(const PictureSize&) const = default;
};

/// The steps that bring each picture to the common size, in this order.
struct Reshaping {
  std::optional<uint32_t> shorter_side = {};  ///< resize it to this and keep the ratio; or
  std::optional<PictureSize> size = {};       ///< resize to this
  std::optional<PictureSize> crop = {};       ///< cut this out of the centre

  bool given() const { return shorter_side || size || crop; }
  bool operator==(const Reshaping&) const = default;
};

/// In a mask: the pixel has no class, and is ignored.
constexpr uint32_t kNoClass = 255;

/// Whether `value` is valid in a mask: an integer below `num_classes`, or kNoClass.
template <typename T>
constexpr bool is_class(T value, uint32_t num_classes) {
  return value == T(kNoClass) || (value >= 0 && value < T(num_classes) && T(int(value)) == value);
}

/// Images of one size, in any places of memory.
template <typename T>
using PixelRows = Rows<T>;

/// An integer per sample, in any place of memory: one byte each in IDX files, else four.
class Labels {
 public:
  Labels() = default;
  Labels(std::vector<uint32_t> labels) : labels_(Rows<uint32_t>(std::move(labels), 1)) {}

  /// From rows of one value.
  explicit Labels(Rows<uint8_t> labels) : labels_(std::move(labels)) {}
  explicit Labels(Rows<uint32_t> labels) : labels_(std::move(labels)) {}

  size_t size() const {
    return std::visit([](const auto& labels) { return labels.size(); }, labels_);
  }
  uint32_t operator[](size_t sample) const {
    return std::visit([&](const auto& labels) { return uint32_t(labels[sample][0]); }, labels_);
  }
  std::vector<uint32_t> copy() const;

  /// Adds all of `other`, whose labels must have the same width.
  void add(const Labels& other);
  Labels select(const Subset& part) const;

  bool operator==(const Labels& other) const { return copy() == other.copy(); }

 private:
  std::variant<Rows<uint32_t>, Rows<uint8_t>> labels_;
};

/// A whole split: N images of one shape, each with a label below num_classes, or with T targets to
/// learn numbers from. If targets are shares of classes (soft labels), samples also have labels:
/// the class of the largest share. The rows of a table are images of (F, 1, 1). With masks, the row
/// of a sample is (C + 1, H, W): its image, then the class of each pixel, below num_classes or
/// kNoClass. Images can be JPEG files of any size, which are decoded, reshaped and cut to `shape`
/// when they are read (jpeg_samples.h). Samples can be texts of different lengths, with as many
/// bytes per token as the vocabulary needs; `shape` is then that of the longest possible text. If
/// samples are tokens, num_classes is the size of the vocabulary, unless each text has a class.
struct Dataset {
  ImageShape shape;
  uint32_t num_classes = 0;
  std::variant<PixelRows<uint8_t>, PixelRows<float>, EncodedImages> pixels;  ///< (N)
  Labels labels;               ///< (N), or none; with masks all 0
  uint32_t num_targets = 0;    ///< T; 0: the samples have only labels
  Rows<float> targets = {};    ///< (N) rows of T, or none
  size_t num_validation = 0;   ///< number of samples at the end that are only for evaluation
  std::string tokenizer = {};  ///< Vocabulary::id() if samples are tokens; else empty
  bool has_masks = false;
  Reshaping reshaping = {};  ///< for JPEG files, before the centre (H, W) is cut out
  uint32_t token_bytes = 0;  ///< bytes per token of texts; 0: no texts
  uint32_t vocabulary = 0;   ///< for texts with a class each; 0: other data

  /// Whether samples differ in size.
  bool is_encoded() const { return std::holds_alternative<EncodedImages>(pixels); }

  /// Whether samples are texts of 1 to `shape.width` tokens each.
  bool has_texts() const { return token_bytes > 0; }

  /// Whether each text has a label, below num_classes.
  bool has_text_classes() const { return vocabulary > 0; }

  /// The number of different tokens, if samples are tokens.
  uint32_t num_kinds_of_token() const { return vocabulary > 0 ? vocabulary : num_classes; }

  /// The number of tokens of a text.
  size_t length_of(size_t sample) const {
    return std::get<EncodedImages>(pixels)[sample].size() / token_bytes;
  }

  size_t size() const { return num_targets > 0 ? targets.size() : labels.size(); }

  /// The size of a sample's mask; 0: no masks.
  size_t values_of_mask() const { return has_masks ? size_t(shape.height) * shape.width : 0; }

  /// Labels each sample with the class of its largest target; the first wins a tie.
  void take_targets_as_shares();

  /// Returns the samples of `part`; this must be a whole split.
  Dataset select(const Subset& part) const;

  /// Returns the samples without those for validation.
  Dataset without_validation() const;
  bool operator==(const Dataset&) const = default;
};

/// Bytes per token for a vocabulary of this size: 1, 2 or 4.
constexpr uint32_t token_bytes_of(uint32_t vocabulary) {
  return vocabulary <= 1u << 8 ? 1 : vocabulary <= 1u << 16 ? 2 : 4;
}

/// Returns the token that begins at `bytes`, little-endian.
inline uint32_t token_at(const uint8_t* bytes, uint32_t token_bytes) {
  uint32_t token = 0;
  std::memcpy(&token, bytes, token_bytes);
  return token;
}

/// Counts the tokens of all samples of `dataset`.
uint64_t num_tokens(const Dataset& dataset);

/// \param values  (N, C, H, W)
template <typename T>
Dataset make_dataset(const ImageShape& shape, uint32_t num_classes, std::vector<T> values,
                     std::vector<uint32_t> labels) {
  return {shape, num_classes, PixelRows<T>(std::move(values), shape.num_values()),
          std::move(labels)};
}

/// The same with targets. \param targets  (N, T)
template <typename T>
Dataset make_dataset(const ImageShape& shape, std::vector<T> values, std::vector<float> targets,
                     uint32_t num_targets) {
  return {shape, 0,           PixelRows<T>(std::move(values), shape.num_values()),
          {},    num_targets, Rows<float>(std::move(targets), num_targets)};
}

enum class Split { Train, Validation, Test };

/// How much of a .dlset is verified before it is used.
enum class Proof {
  Hash,       ///< the hash: reads the whole file once
  Structure,  ///< header, length and labels
};

/// Opens a split in `folder`, in any form of split_files.h; the training split is followed by that
/// for validation, if there is one. Images of .dlset files stay there and are read on access.
/// Throws Error: NotFound with the names that were tried, Corrupt with file and reason.
Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof = Proof::Hash);

}  // namespace dlflow::runtime
