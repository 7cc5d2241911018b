#include "runtime/import/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/import/mask.h"

namespace dlflow::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// Returns the text after 'key': in the header, which is a Python dictionary.
std::string_view value_of(std::string_view header, const std::string& key,
                          const std::string& name) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos) throw_corrupt(name, "its header has no '" + key + "'");
  return trim(header.substr(at + key.size() + 3));
}

/// Parses "(10, 28, 28), …".
std::vector<uint64_t> parse_shape(std::string_view text, const std::string& name) {
  std::vector<uint64_t> shape;
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) throw_corrupt(name, "has no shape");
  for (const std::string& part : split(text.substr(1, end - 1), ',')) {
    const std::string_view number = trim(part);
    if (number.empty()) continue;
    const auto value = number_from<uint64_t>(number);
    if (!value) throw_corrupt(name, "has no shape");
    shape.push_back(*value);
  }
  return shape;
}

/// Returns "<f4" from "'<f4', …". Throws, with advice, for types that are not numbers.
std::string parse_type(std::string_view text, const std::string& name) {
  if (text.starts_with('[')) {
    throw_corrupt(name,
                  "is an array of records; save one field of it: np.save(FILE, array['NAME'])");
  }
  const char quote = text.empty() ? '\0' : text[0];
  const size_t end = text.find(quote, 1);
  if ((quote != '\'' && quote != '"') || end == std::string_view::npos || end < 3) {
    throw_corrupt(name, "its header names no type");
  }
  std::string type(text.substr(1, end - 1));
  const char kind = type[1];
  if (kind == 'O') {
    throw_corrupt(name,
                  "is an array of Python objects; write array.astype('float32'), or "
                  "array.astype('int64') for labels");
  }
  if (kind == 'U' || kind == 'S' || kind == 'T') {
    throw_corrupt(name, "is an array of text (" + type +
                            "); for labels, write "
                            "np.unique(array, return_inverse=True)[1]");
  }
  if (kind == 'V')
    throw_corrupt(name, "is an array of records (" + type + "); save one field of it");
  return type;
}

/// Returns the bytes per value: the digit after "<f".
std::optional<uint64_t> size_of_type(const std::string& type) {
  if (type.size() != 3 || type[2] < '1' || type[2] > '8') return std::nullopt;
  return uint64_t(type[2] - '0');
}

std::optional<uint64_t> size_of_array(const NpyArray& array) {
  std::optional<uint64_t> size = size_of_type(array.type);
  for (const uint64_t dimension : array.shape) {
    uint64_t product = 0;
    if (!size || __builtin_mul_overflow(*size, dimension, &product)) return std::nullopt;
    size = product;
  }
  return size;
}

/// Returns the header and the offset of the values.
std::pair<std::string_view, size_t> find_header(std::string_view content, const std::string& name) {
  if (content.size() < 12 || !content.starts_with(kMagic))
    throw_corrupt(name, "is not an .npy file");
  const auto byte = [&](size_t i) { return size_t(uint8_t(content[i])); };
  const bool first_version = content[6] == 1;
  const size_t begin = first_version ? 10 : 12;
  const size_t length = first_version ? byte(8) | byte(9) << 8
                                      : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > content.size() - begin) throw_corrupt(name, "ends within its header");
  return {content.substr(begin, length), begin + length};
}

/// Calls `use` with a 0 of the array's integer type. False if it has another type.
template <typename Use>
bool use_integers(const NpyArray& array, const Use& use) {
  const std::string type = array.type.substr(1);
  if (type == "u1") return use(uint8_t{}), true;
  if (type == "i1") return use(int8_t{}), true;
  if (type == "u2") return use(uint16_t{}), true;
  if (type == "i2") return use(int16_t{}), true;
  if (type == "u4") return use(uint32_t{}), true;
  if (type == "i4") return use(int32_t{}), true;
  if (type == "u8") return use(uint64_t{}), true;
  if (type == "i8") return use(int64_t{}), true;
  return false;
}

/// The allowed numbers, from 0 to less than `size`, and the message about others.
struct Allowed {
  uint64_t size = std::numeric_limits<uint32_t>::max();
  const char* refusal = "sample {} has the label {}";
};

template <typename T>
std::vector<uint32_t> numbers_of(const NpyArray& array, const std::string& name,
                                 const Allowed& allowed) {
  std::vector<uint32_t> numbers(array.values.view.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, array.values.view.data() + i * sizeof(T), sizeof(T));
    if (value < 0 || uint64_t(value) >= allowed.size) {
      throw_corrupt(name, fmt::format(fmt::runtime(allowed.refusal), i, value, allowed.size));
    }
    numbers[i] = uint32_t(std::make_unsigned_t<T>(value));
  }
  return numbers;
}

/// \param what  "labels"
std::vector<uint32_t> read_whole_numbers(const NpyArray& array, const std::string& name,
                                         const std::string& what, const Allowed& allowed) {
  std::vector<uint32_t> numbers;
  const auto read = [&](auto zero) { numbers = numbers_of<decltype(zero)>(array, name, allowed); };
  if (use_integers(array, read)) return numbers;
  throw_corrupt(name, "has " + what + " of type " + array.type + "; they must be integers");
}

/// Whether single precision rounds `value` to another whole number.
template <typename T>
bool is_rounded(T value) {
  constexpr long double kLargest = 1 << 24;
  const auto exact = (long double)(value);
  return std::abs(exact) > kLargest && exact == std::floor(exact) && float(value) != exact &&
         std::isfinite(float(value));
}

/// \param notes  gets a line if whole numbers are rounded, unless it is null
template <typename T>
std::vector<float> floats_of(const NpyArray& array, const std::string& name,
                             std::vector<std::string>* notes) {
  std::vector<float> values(array.values.view.size() / sizeof(T));
  size_t num_rounded = 0, first = 0;
  T rounded{};
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, array.values.view.data() + i * sizeof(T), sizeof(T));
    values[i] = float(value);
    if (!is_rounded(value) || num_rounded++ > 0) continue;
    first = i;
    rounded = value;
  }
  if (num_rounded > 0 && notes != nullptr) {
    const size_t row = values.size() / array.shape[0];
    notes->push_back(
        fmt::format("{}: sample {}, value {}: {} becomes {:.0f} in single precision, "
                    "as {} of the array's whole numbers are rounded; subtract a "
                    "constant, if this matters",
                    name, first / row, first % row, rounded, values[first], num_rounded));
  }
  return values;
}

/// Converts numbers of any type to single precision.
std::vector<float> read_numbers(const NpyArray& array, const std::string& name,
                                std::vector<std::string>* notes) {
  const std::string type = array.type.substr(1);
  if (type == "f4") return floats_of<float>(array, name, nullptr);
  if (type == "f8") return floats_of<double>(array, name, notes);
  if (type == "b1") return floats_of<uint8_t>(array, name, nullptr);
  std::vector<float> numbers;
  if (use_integers(array,
                   [&](auto zero) { numbers = floats_of<decltype(zero)>(array, name, notes); })) {
    return numbers;
  }
  throw_corrupt(name, "has values of type " + array.type + "; write array.astype('float32')");
}

/// Reads labels (N) if they are integers, else targets (N) or (N, T).
void read_answers(const NpyArray& array, const std::string& name, Dataset& dataset,
                  std::vector<std::string>* notes) {
  if (array.shape.empty() || array.shape.size() > 2) {
    throw_corrupt(
        name,
        "has neither the shape of labels, (N), nor of targets, (N) or (N, T), nor of masks, "
        "(N, H, W)");
  }
  if (array.shape.size() == 1 && array.type[1] != 'f') {
    std::vector<uint32_t> labels = read_whole_numbers(array, name, "labels", {});
    for (const uint32_t label : labels) {
      dataset.num_classes = std::max(dataset.num_classes, label + 1);
    }
    dataset.labels = std::move(labels);
    return;
  }
  const uint64_t num_targets = array.shape.size() == 1 ? 1 : array.shape[1];
  if (num_targets < 1 || num_targets > std::numeric_limits<uint32_t>::max()) {
    throw_corrupt(name, fmt::format("has {} targets a sample", num_targets));
  }
  dataset.num_targets = uint32_t(num_targets);
  dataset.targets = Rows<float>(read_numbers(array, name, notes), num_targets);
}

ImageShape image_shape(const std::vector<uint64_t>& shape, const std::string& name) {
  const bool has_channels = shape.size() == 4, is_table = shape.size() == 2;
  if (!has_channels && !is_table && shape.size() != 3) {
    throw_corrupt(
        name,
        "does not have the shape of images, (N, H, W) or (N, C, H, W), or of a table, (N, F)");
  }
  if (has_channels && shape[3] <= 4 && shape[1] > 4) {
    throw_corrupt(name, "seems to have its channels last; write np.moveaxis(images, -1, 1)");
  }
  if (*std::max_element(shape.begin() + 1, shape.end()) > std::numeric_limits<uint32_t>::max()) {
    throw_corrupt(name, "has images that are too large");
  }
  if (is_table) return {uint32_t(shape[1]), 1, 1};
  return {has_channels ? uint32_t(shape[1]) : 1, uint32_t(shape[shape.size() - 2]),
          uint32_t(shape.back())};
}

template <typename T>
PixelRows<T> images_of(const NpyArray& array, size_t image_size) {
  PixelRows<T> images;
  const char* const bytes = array.values.view.data();
  if (reinterpret_cast<uintptr_t>(bytes) % alignof(T) == 0) {
    images.add(reinterpret_cast<const T*>(bytes), array.shape[0], image_size, array.values.owner);
    return images;
  }
  std::vector<T> values(array.values.view.size() / sizeof(T));
  std::memcpy(values.data(), bytes, array.values.view.size());
  return PixelRows<T>(std::move(values), image_size);
}

[[noreturn]] void refuse_pixels(const NpyArray& pixels, const std::string& name) {
  throw_corrupt(name, "has values of type " + pixels.type +
                          "; write images.astype('uint8') or images.astype('float32')");
}

/// The classes of all pixels, including kNoClass.
struct MaskArray {
  std::vector<uint8_t> values;
  uint32_t num_classes = 1;
};

template <typename T>
MaskArray masks_of(const NpyArray& array, const std::string& name, std::optional<int64_t> ignored) {
  MaskArray masks;
  for (size_t at = 0; at < array.values.view.size(); at += sizeof(T)) {
    T number;
    std::memcpy(&number, array.values.view.data() + at, sizeof(T));
    const bool fits = std::in_range<int64_t>(number);
    const auto value = fits ? class_of(int64_t(number), ignored) : std::nullopt;
    if (!value) {
      const uint64_t sample = masks.values.size() / (array.shape[1] * array.shape[2]);
      throw_corrupt(name,
                    fmt::format("sample {} has the value {}, but classes are 0 to {}; --ignore "
                                "{} leaves such pixels out",
                                sample, number, kNoClass - 1, number));
    }
    masks.values.push_back(*value);
    if (*value != kNoClass) {
      masks.num_classes = std::max<uint32_t>(masks.num_classes, *value + 1u);
    }
  }
  return masks;
}

MaskArray read_masks(NpyArray array, const std::string& name, std::optional<int64_t> ignored) {
  if (array.type == "|b1") array.type = "|u1";
  MaskArray masks;
  const auto read = [&](auto zero) { masks = masks_of<decltype(zero)>(array, name, ignored); };
  if (use_integers(array, read)) return masks;
  throw_corrupt(name,
                "has values of type " + array.type + "; class numbers in masks must be integers");
}

/// Returns "(10, 28, 28)".
std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t size : shape) text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text + ")";
}

/// Returns a function that joins each sample's image and mask to one row.
template <typename T>
std::function<std::string_view(size_t)> joined(PixelRows<T> images, std::vector<uint8_t> masks) {
  const size_t mask = images.size() > 0 ? masks.size() / images.size() : 0;
  return [images = std::move(images), masks = std::move(masks), mask,
          row = std::vector<T>()](size_t sample) mutable -> std::string_view {
    row.assign(images[sample].begin(), images[sample].end());
    const auto first = masks.begin() + std::ptrdiff_t(sample * mask);
    row.insert(row.end(), first, first + std::ptrdiff_t(mask));
    return {reinterpret_cast<const char*>(row.data()), row.size() * sizeof(T)};
  };
}

}  // namespace

NpyArray parse_npy(const SharedBytes& content, const std::string& name) {
  const auto [header, begin] = find_header(content.view, name);
  NpyArray array;
  array.type = parse_type(value_of(header, "descr", name), name);
  if (!size_of_type(array.type)) {
    throw_corrupt(name, "has values of type " + array.type + "; write array.astype('float32')");
  }
  if (!value_of(header, "fortran_order", name).starts_with("False")) {
    throw_corrupt(name, "is in Fortran order; write np.ascontiguousarray(array)");
  }
  array.shape = parse_shape(value_of(header, "shape", name), name);
  array.values = {content.owner, content.view.substr(begin)};
  const bool big_endian = array.type.starts_with('>');
  if (big_endian || size_of_array(array) != array.values.view.size()) {
    throw_corrupt(name,
                  big_endian
                      ? "has big-endian values; write array.astype(array.dtype.newbyteorder('<'))"
                      : fmt::format("has {} bytes of values, but its header gives another number",
                                    array.values.view.size()));
  }
  return array;
}

std::vector<uint32_t> read_npy_tokens(const std::filesystem::path& file, size_t vocabulary) {
  const NpyArray array = parse_npy(map_file(file), file.string());
  if (array.shape.size() != 1) {
    throw_corrupt(file.string(), "has the shape " + shape_text(array.shape) +
                                     ", but tokens have (N); write array.ravel()");
  }
  return read_whole_numbers(array, file.string(), "tokens",
                            {vocabulary, "number {} is the token {}, but the tokenizer has {}"});
}

bool has_npy_masks(const std::filesystem::path& file) {
  return file.extension() == ".npy" && parse_npy(map_file(file), file.string()).shape.size() == 3;
}

SampleSource read_npy_masks(const std::filesystem::path& images, const std::filesystem::path& masks,
                            std::optional<int64_t> ignored) {
  const NpyArray pixels = parse_npy(map_file(images), images.string());
  const NpyArray wanted = parse_npy(map_file(masks), masks.string());
  if (pixels.shape.size() == 2) {
    throw_corrupt(images.string(), "is a table, (N, F), which has no masks");
  }
  SampleSource source;
  source.shape = image_shape(pixels.shape, images.string());
  const std::vector<uint64_t> fitting = {pixels.shape[0], source.shape.height, source.shape.width};
  if (wanted.shape != fitting) {
    throw_corrupt(masks.string(), "has the shape " + shape_text(wanted.shape) +
                                      ", but masks of these images have " + shape_text(fitting));
  }
  source.has_masks = true;
  source.labels.resize(pixels.shape[0]);
  MaskArray classes = read_masks(wanted, masks.string(), ignored);
  source.num_classes = classes.num_classes;
  const size_t values = source.shape.num_values();
  if (pixels.type == "|u1") {
    source.image = joined(images_of<uint8_t>(pixels, values), std::move(classes.values));
  } else if (pixels.type == "<f4") {
    source.pixel_type = PixelType::Float;
    source.image = joined(images_of<float>(pixels, values), std::move(classes.values));
  } else {
    refuse_pixels(pixels, images.string());
  }
  return source;
}

Dataset read_npy_pair(const std::filesystem::path& images, const std::filesystem::path& answers,
                      std::vector<std::string>* notes) {
  const NpyArray pixels = parse_npy(map_file(images), images.string());
  const NpyArray wanted = parse_npy(map_file(answers), answers.string());
  Dataset dataset;
  dataset.shape = image_shape(pixels.shape, images.string());
  read_answers(wanted, answers.string(), dataset, notes);
  if (wanted.shape[0] != pixels.shape[0]) {
    throw_corrupt(answers.string(),
                  fmt::format("has {} {} for {} {}", wanted.shape[0],
                              dataset.num_targets > 0 ? "rows of targets" : "labels",
                              pixels.shape[0], pixels.shape.size() == 2 ? "rows" : "images"));
  }
  if (pixels.type == "|u1") {
    dataset.pixels = images_of<uint8_t>(pixels, dataset.shape.num_values());
  } else if (pixels.type == "<f4") {
    dataset.pixels = images_of<float>(pixels, dataset.shape.num_values());
  } else if (pixels.shape.size() == 2) {
    dataset.pixels =
        PixelRows<float>(read_numbers(pixels, images.string(), notes), dataset.shape.num_values());
  } else {
    refuse_pixels(pixels, images.string());
  }
  return dataset;
}

}  // namespace dlflow::runtime
