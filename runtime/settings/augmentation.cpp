#include <algorithm>
#include <string>

#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

[[noreturn]] void fail_form() {
  WithReader::fail("augment", "a list of 'crop', 'flip' and mappings like {rotate: 15}");
}

/// Reads a number above 0 and at most `most`.
void read_extent(WithReader& reader, const std::string& key, double most, double& value) {
  if (reader.find(key) == nullptr) return;
  value = reader.number(key, 0, {});
  if (!(value > 0 && value <= most)) {
    WithReader::fail("augment." + key, "above 0 and at most " + Json(most).dump());
  }
}

/// Reads the parameter of a beta distribution, in the range where its draws are useful.
void read_mixture(WithReader& reader, const std::string& key, double& value) {
  if (reader.find(key) == nullptr) return;
  value = reader.number(key, 0, {});
  if (!(value >= 0.05 && value <= 1)) WithReader::fail("augment." + key, "from 0.05 to 1");
}

void read_changes(const Json& json, Augmentation& augmentation) {
  constexpr uint64_t kLargestHole = 1 << 20;
  WithReader reader(json, "augment");
  read_extent(reader, "resized_crop", 1, augmentation.resized_crop);
  read_extent(reader, "rotate", 180, augmentation.rotate);
  read_extent(reader, "brightness", 1, augmentation.brightness);
  read_extent(reader, "contrast", 1, augmentation.contrast);
  read_extent(reader, "saturation", 1, augmentation.saturation);
  if (reader.find("cutout") != nullptr) {
    augmentation.cutout = uint32_t(std::min(reader.count("cutout", 1, {}), kLargestHole));
  }
  read_mixture(reader, "mixup", augmentation.mixup);
  read_mixture(reader, "cutmix", augmentation.cutmix);
  reader.finish();
}

}  // namespace

Augmentation read_augmentation(const Json* list) {
  constexpr uint32_t kCropPadding = 4;  // as for CIFAR in He et al., CVPR 2016
  Augmentation augmentation;
  if (list == nullptr) return augmentation;
  if (!list->is_array()) fail_form();
  for (const Json& change : *list) {
    if (change == "crop") {
      augmentation.crop_padding = kCropPadding;
    } else if (change == "flip") {
      augmentation.flip = true;
    } else if (change.is_object()) {
      read_changes(change, augmentation);
    } else {
      fail_form();
    }
  }
  if (augmentation.crop_padding > 0 && augmentation.resized_crop > 0) {
    WithReader::refuse("augment", "has 'crop' and 'resized_crop'; leave one out");
  }
  return augmentation;
}

}  // namespace dlflow::runtime
