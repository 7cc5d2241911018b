#include "runtime/data/augment.h"

#include <algorithm>

#include "base/random.h"

namespace dlflow::runtime {
namespace {

/// One row of output from one row of input, `width` pixels each.
template <typename T>
void change_row(const T* input, T* output, int width, int shift, bool flip) {
  for (int x = 0; x < width; ++x) {
    const int source = x + shift;
    const bool inside = source >= 0 && source < width;
    output[x] = inside ? input[flip ? width - 1 - source : source] : T(0);
  }
}

template <typename T>
void change_image(const ImageChange& change, const ImageShape& shape, const T* input, T* output) {
  const int height = int(shape.height), width = int(shape.width);
  for (uint32_t channel = 0; channel < shape.channels; ++channel) {
    for (int y = 0; y < height; ++y, output += width) {
      const int source = y + change.shift_y;
      if (source < 0 || source >= height) {
        std::fill_n(output, width, T(0));
      } else {
        change_row(input + size_t(source) * width, output, width, change.shift_x, change.flip);
      }
    }
    input += size_t(height) * width;
  }
}

}  // namespace

ImageChange draw_change(const Augmentation& augmentation, uint64_t seed, uint64_t epoch,
                        uint32_t sample) {
  RandomStream random(seed, RandomUse::Augmentation, uint32_t(epoch), sample);
  const uint32_t shifts = 2 * augmentation.crop_padding + 1;
  const auto shift = [&] { return int(random.below(shifts)) - int(augmentation.crop_padding); };
  ImageChange change;
  change.shift_y = shift();
  change.shift_x = shift();
  change.flip = augmentation.flip && random.next() >> 31 != 0;
  return change;
}

void apply_change(const ImageChange& change, const ImageShape& shape, const uint8_t* input,
                  uint8_t* output) {
  change_image(change, shape, input, output);
}

void apply_change(const ImageChange& change, const ImageShape& shape, const float* input,
                  float* output) {
  change_image(change, shape, input, output);
}

}  // namespace dlflow::runtime
