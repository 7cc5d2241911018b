#include "runtime/data/augment.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace dlflow::runtime {
namespace {

double uniform(RandomStream& random, double from, double to) {
  return from + (to - from) * double(random.uniform());
}

/// Returns a box with at least the share `least` of the area; the largest box in the middle if ten
/// draws do not fit into the image.
CropBox draw_crop(RandomStream& random, const ImageShape& shape, double least) {
  const double area = double(shape.height) * shape.width;
  const double widest = std::log(4.0 / 3);
  for (int draw = 0; draw < 10; ++draw) {
    const double share = uniform(random, least, 1);
    const double ratio = std::exp(uniform(random, -widest, widest));
    const auto width = uint32_t(std::lround(std::sqrt(area * share * ratio)));
    const auto height = uint32_t(std::lround(std::sqrt(area * share / ratio)));
    if (width < 1 || height < 1 || width > shape.width || height > shape.height) continue;
    const uint32_t top = random.below(shape.height - height + 1);
    return {top, random.below(shape.width - width + 1), height, width};
  }
  const uint32_t width = std::min(shape.width, shape.height * 4 / 3);
  const uint32_t height = std::min(shape.height, shape.width * 4 / 3);
  return {(shape.height - height) / 2, (shape.width - width) / 2, height, width};
}

/// Draws a factor around 1; without change, takes no number from the stream.
float draw_factor(RandomStream& random, double most) {
  return most == 0 ? 1.0f : float(uniform(random, 1 - most, 1 + most));
}

}  // namespace

ImageChange draw_change(const Augmentation& augmentation, const ImageShape& shape, uint64_t seed,
                        uint64_t epoch, uint32_t sample) {
  return draw_change(augmentation, shape, shape, seed, epoch, sample);
}

ImageChange draw_change(const Augmentation& augmentation, const ImageShape& shape,
                        const ImageShape& picture, uint64_t seed, uint64_t epoch, uint32_t sample) {
  RandomStream random(seed, RandomUse::Augmentation, uint32_t(epoch), sample);
  const uint32_t shifts = 2 * augmentation.crop_padding + 1;
  const auto shift = [&] { return int(random.below(shifts)) - int(augmentation.crop_padding); };
  ImageChange change;
  change.shift_y = shift();
  change.shift_x = shift();
  change.flip = augmentation.flip && random.next() >> 31 != 0;
  if (augmentation.resized_crop > 0) {
    change.crop = draw_crop(random, picture, augmentation.resized_crop);
  }
  if (augmentation.rotate > 0) {
    change.angle = float(uniform(random, -augmentation.rotate, augmentation.rotate));
  }
  change.brightness = draw_factor(random, augmentation.brightness);
  change.contrast = draw_factor(random, augmentation.contrast);
  change.saturation = draw_factor(random, augmentation.saturation);
  if (augmentation.cutout > 0) {
    const uint32_t y = random.below(shape.height);
    change.hole = {y, random.below(shape.width), augmentation.cutout};
  }
  return change;
}

}  // namespace dlflow::runtime
