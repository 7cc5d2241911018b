#include "runtime/data/mix.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.h"

namespace dlflow::runtime {
namespace {

/// Draws from Beta(alpha, alpha), `alpha` at most 1. Source: Joehnk, Metrika 8 (1964).
double draw_beta(RandomStream& random, double alpha) {
  while (true) {
    const double x = std::pow(double(random.uniform()), 1 / alpha);
    const double y = std::pow(double(random.uniform()), 1 / alpha);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

/// Draws a box around a random pixel. Its area is 1 - `own` of the image's; then it is clipped to
/// the image.
CropBox draw_box(RandomStream& random, const ImageShape& shape, double own) {
  const double side = std::sqrt(1 - own);
  const auto range = [&](uint32_t size) {
    const auto half = int64_t(side * size / 2), middle = int64_t(random.below(size));
    const int64_t begin = std::max<int64_t>(middle - half, 0);
    return std::pair(uint32_t(begin), uint32_t(std::min<int64_t>(middle + half, size) - begin));
  };
  const auto [top, height] = range(shape.height);
  const auto [left, width] = range(shape.width);
  return {top, left, height, width};
}

void blend(const float* next, size_t count, float own, float* image) {
  for (size_t i = 0; i < count; ++i) image[i] = own * image[i] + (1 - own) * next[i];
}

void paste(const float* next, const ImageShape& shape, const CropBox& box, float* image) {
  for (size_t channel = 0; channel < shape.channels; ++channel) {
    for (size_t y = box.top; y < box.top + box.height; ++y) {
      const size_t first = (channel * shape.height + y) * shape.width + box.left;
      std::copy_n(next + first, box.width, image + first);
    }
  }
}

/// Returns the share of itself that `image` keeps.
float mix_with(const float* next, const Augmentation& augmentation, const ImageShape& shape,
               RandomStream& random, float* image) {
  const bool both = augmentation.mixup > 0 && augmentation.cutmix > 0;
  const bool pastes = both ? random.next() >> 31 != 0 : augmentation.cutmix > 0;
  const double own = draw_beta(random, pastes ? augmentation.cutmix : augmentation.mixup);
  if (!pastes) {
    blend(next, shape.num_values(), float(own), image);
    return float(own);
  }
  const CropBox box = draw_box(random, shape, own);
  paste(next, shape, box, image);
  const double area = double(shape.height) * shape.width;
  return float(1 - double(box.height) * box.width / area);
}

}  // namespace

void mix(const Augmentation& augmentation, const ImageShape& shape, uint64_t seed, uint64_t epoch,
         const MixedLeaf& leaf) {
  const size_t count = leaf.samples.size(), values = shape.num_values();
  if (count == 0) return;
  const size_t classes = leaf.shares.size() / count;
  const std::vector<float> first(leaf.images, leaf.images + values);  // mixed into the last one
  const std::vector<float> first_shares(leaf.shares.begin(),
                                        leaf.shares.begin() + std::ptrdiff_t(classes));
  for (size_t i = 0; i < count; ++i) {
    RandomStream random(seed, RandomUse::Mixing, uint32_t(epoch), leaf.samples[i]);
    const bool is_last = i + 1 == count;
    float *const image = leaf.images + i * values, *const shares = &leaf.shares[i * classes];
    const float own =
        mix_with(is_last ? first.data() : image + values, augmentation, shape, random, image);
    blend(is_last ? first_shares.data() : shares + classes, classes, own, shares);
  }
}

}  // namespace dlflow::runtime
