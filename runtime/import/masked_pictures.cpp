#include "runtime/import/masked_pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/names.h"
#include "runtime/import/mask.h"
#include "runtime/import/picture_kind.h"
#include "runtime/import/turned_pictures.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char *kImages = "images", *kMasks = "masks";

/// Files that are not hidden, by name without extension. Throws Error{InvalidInput} for duplicates.
std::map<std::string, fs::path> files_by_name(const fs::path& folder) {
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& file = entry.path();
    if (file.filename().string().starts_with('.')) continue;
    const auto [there, is_new] = files.emplace(file.stem().string(), file);
    if (is_new) continue;
    throw Error(Errc::InvalidInput, file.string() + " and " + there->second.string() +
                                        " have the same name; take one of them out of the folder");
  }
  return files;
}

std::string size_text(const ImageShape& shape) {
  return fmt::format("{} x {} pixels", shape.width, shape.height);
}

/// A picture and its mask.
struct MaskedPicture {
  Picture picture;
  Mask mask;
};

/// Reads the pictures of a folder with their masks.
class MaskedPictures {
 public:
  MaskedPictures(const fs::path& folder, ImportOptions options) : options_(std::move(options)) {
    const auto masks = files_by_name(folder / kMasks);
    for (const auto& [name, file] : files_by_name(folder / kImages)) {
      images_.push_back(file);
      names_.push_back(file.filename().string());
      const auto mask = masks.find(name);
      masks_.push_back(mask == masks.end() ? fs::path() : mask->second);
    }
    require_no_lone_masks(masks);
    classes_ = read_names(folder / kClassNames);
    num_classes_ = classes_.empty() ? largest_class() + 1 : uint32_t(classes_.size());
    if (num_classes_ > kNoClass) {
      throw Error(Errc::InvalidInput, fmt::format("{}: {} classes; masks have {} at most",
                                                  folder.string(), num_classes_, kNoClass));
    }
    kind_ = UsualKind(images_, [this](size_t sample) {
      const Picture picture = open_picture(sample);
      return PictureKind{picture.shape, picture.is_wide()};
    });
  }

  MaskedPictures(const MaskedPictures&) = delete;
  MaskedPictures& operator=(const MaskedPictures&) = delete;

  const PictureKind& kind() const { return *kind_; }
  std::vector<std::string> notes() const { return turned_.notes(); }
  uint32_t num_classes() const { return num_classes_; }
  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<std::string>& names() const { return names_; }

  std::string_view read(size_t sample) {
    MaskedPicture current = open(sample);
    kind_.require(sample, {current.picture.shape, current.picture.is_wide()});
    if (!kind_->is_wide) {
      bytes_.assign(current.picture.values.begin(), current.picture.values.end());
      bytes_.append(current.mask.classes.begin(), current.mask.classes.end());
      return bytes_;
    }
    std::vector<float>& floats = current.picture.floats;
    floats.insert(floats.end(), current.mask.classes.begin(), current.mask.classes.end());
    bytes_.assign(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
    return bytes_;
  }

 private:
  void require_no_lone_masks(const std::map<std::string, fs::path>& masks) const {
    for (const auto& [name, file] : masks) {
      if (std::ranges::find(masks_, file) != masks_.end()) continue;
      throw Error(Errc::InvalidInput, file.string() + " is the mask of no picture in " +
                                          (file.parent_path().parent_path() / kImages).string());
    }
  }

  uint32_t largest_class() const {
    uint32_t largest = 0;
    for (size_t i = 0; i < masks_.size(); ++i) {
      try {
        for (const uint8_t c : open_mask(i).classes) {
          if (c != kNoClass) largest = std::max<uint32_t>(largest, c);
        }
      } catch (const Error&) {
        continue;  // reported when it is read
      }
    }
    return largest;
  }

  Picture open_picture(size_t sample) {
    const fs::path& file = images_[sample];
    if (!is_picture(file)) {
      throw Error(Errc::InvalidInput,
                  file.string() +
                      ": is not a JPEG, PNG, PGM or PPM picture; convert it, or "
                      "take it out of the folder");
    }
    const std::string content = read_file(file);
    turned_.look(sample, content, file.string());
    return reshape(parse_picture(content, file.string()), options_.reshaping, file.string());
  }

  /// Returns the mask with its classes, in the size of its file.
  Mask open_mask(size_t sample) const {
    const fs::path& file = masks_[sample];
    if (file.empty()) {
      throw Error(Errc::InvalidInput, images_[sample].string() + ": has no mask " +
                                          images_[sample].stem().string() + ".png in " + kMasks);
    }
    if (!is_mask(file)) {
      throw Error(Errc::InvalidInput,
                  file.string() + ": is not a PNG or PGM file, as masks must be");
    }
    Mask mask = parse_mask(read_file(file), file.string());
    for (uint8_t& value : mask.classes) value = *class_of(value, options_.ignored);
    return mask;
  }

  MaskedPicture open(size_t sample) {
    MaskedPicture both{open_picture(sample), open_mask(sample)};
    const std::string file = masks_[sample].string();
    const ImageShape own = both.mask.shape();
    both.mask = reshape(std::move(both.mask), options_.reshaping, file);
    const ImageShape picture{1, both.picture.shape.height, both.picture.shape.width};
    if (both.mask.shape() != picture) {
      throw Error(Errc::InvalidInput,
                  file + ": has " + size_text(own) +
                      "; the resized mask would not have the size of its picture");
    }
    const auto bad = std::ranges::find_if(
        both.mask.classes, [&](uint8_t value) { return !is_class(value, num_classes_); });
    if (bad == both.mask.classes.end()) return both;
    const auto at = size_t(bad - both.mask.classes.begin());
    throw Error(Errc::InvalidInput,
                fmt::format("{}: has {} in row {}, column {}, but {} names {} classes; --ignore "
                            "{} leaves such pixels out",
                            file, *bad, at / both.mask.width, at % both.mask.width, kClassNames,
                            num_classes_, *bad));
  }

  ImportOptions options_;
  std::vector<fs::path> images_, masks_;  // empty path: no mask
  std::vector<std::string> names_, classes_;
  uint32_t num_classes_ = 0;
  UsualKind kind_;
  TurnedPictures turned_;
  std::string bytes_;  // the last sample read
};

}  // namespace

bool has_masked_pictures(const fs::path& folder) {
  return fs::is_directory(folder / kImages) && fs::is_directory(folder / kMasks);
}

ImportedSplit open_masked_pictures(const fs::path& folder, const ImportOptions& options) {
  const auto pictures = std::make_shared<MaskedPictures>(folder, options);
  SampleSource source;
  source.shape = pictures->kind().shape;
  source.num_classes = pictures->num_classes();
  source.pixel_type = pictures->kind().is_wide ? PixelType::Float : PixelType::Byte;
  source.labels.resize(pictures->names().size());
  source.image = [pictures](size_t sample) { return pictures->read(sample); };
  source.has_masks = true;
  return {std::move(source), pictures->classes(), {}, pictures->names(), [pictures] {
            return pictures->notes();
          }};
}

}  // namespace dlflow::runtime
