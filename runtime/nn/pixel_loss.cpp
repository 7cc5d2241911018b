#include "runtime/nn/pixel_loss.h"

#include <cmath>
#include <vector>

#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr auto kIgnored = float(kIgnoredClass);

/// The size of one sample's map.
struct Map {
  int64_t classes, pixels;
};

/// The softmax of up to 16 pixels.
struct PixelSoftmax {
  float highest[kLanes];
  float sum[kLanes];  ///< of exp(score - highest)
};

template <bool Whole>
DLFLOW_INLINE PixelSoftmax softmax_of(const Map& map, const float* scores, int64_t width,
                                      float* probabilities) {
  Lanes highest = load<Whole>(scores, width), sum = {};
  for (int64_t c = 1; c < map.classes; ++c) {
    highest = maximum(load<Whole>(scores + c * map.pixels, width), highest);
  }
  for (int64_t c = 0; c < map.classes; ++c) {
    const Lanes power = exponential(load<Whole>(scores + c * map.pixels, width) - highest);
    store<Whole>(probabilities + c * map.pixels, power, width);
    sum += power;
  }
  const Lanes factor = 1 / sum;
  for (int64_t c = 0; c < map.classes; ++c) {
    float* const p = probabilities + c * map.pixels;
    store<Whole>(p, load<Whole>(p, width) * factor, width);
  }
  PixelSoftmax result;
  store<true>(result.highest, highest, kLanes);
  store<true>(result.sum, sum, kLanes);
  return result;
}

/// Targets of the classes in cross-entropy: `even` for each, plus `own` for the pixel's class.
struct Targets {
  explicit Targets(const PixelLoss& loss, int64_t classes)
      : own(size_t(classes), float(1 - loss.smoothing)),
        even(size_t(classes), float(loss.smoothing / double(classes))) {
    for (size_t c = 0; c < loss.class_weights.size(); ++c) {
      own[c] *= loss.class_weights[c];
      even[c] *= loss.class_weights[c];
    }
    if (loss.smoothing == 0) return;
    for (const float share : even) all += share;
  }

  std::vector<float> own, even;
  float all = 0;  ///< the sum of `even`
};

/// The loss of one pixel: the sum over classes of target * (log_sum - score).
double cross_entropy_of(const Map& map, const Targets& targets, const float* scores, size_t label,
                        double log_sum) {
  const auto score = [&](size_t c) { return double(scores[int64_t(c) * map.pixels]); };
  double loss = double(targets.own[label]) * (log_sum - score(label));
  if (targets.all == 0) return loss;
  for (size_t c = 0; c < targets.even.size(); ++c) {
    loss += double(targets.even[c]) * (log_sum - score(c));
  }
  return loss;
}

/// Whether no class before `label`, which has the highest score, has the same score.
bool is_first_of_equals(const Map& map, const float* scores, size_t label, float highest) {
  for (size_t c = 0; c < label; ++c) {
    if (scores[int64_t(c) * map.pixels] == highest) return false;
  }
  return true;
}

/// Computes softmax, the cross-entropy summed over pixels, and the number correct for one sample.
DLFLOW_VECTOR_CLONES
MaskSums measure_map(const Map& map, const Targets& targets, const float* scores, const float* mask,
                     float* probabilities) {
  MaskSums sums;
  for_each_lanes(
      map.pixels, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        const PixelSoftmax softmax =
            softmax_of<whole()>(map, scores + at, width, probabilities + at);
        for (int64_t i = 0; i < width; ++i) {
          if (mask[at + i] == kIgnored) continue;
          const float* const pixel = scores + at + i;
          const auto label = size_t(mask[at + i]);
          const double log_sum = double(std::log(softmax.sum[i])) + double(softmax.highest[i]);
          sums.loss += cross_entropy_of(map, targets, pixel, label, log_sum);
          sums.num_counted += 1;
          if (pixel[int64_t(label) * map.pixels] == softmax.highest[i] &&
              is_first_of_equals(map, pixel, label, softmax.highest[i])) {
            sums.num_correct += 1;
          }
        }
      });
  return sums;
}

/// The terms of Dice for one class of a sample.
struct DiceSums {
  double both = 0;         ///< sum of probabilities on the class's own pixels
  double probability = 0;  ///< sum on all pixels that count
  double pixels = 0;       ///< number of the class's pixels

  double dice() const { return (2 * both + 1) / (probability + pixels + 1); }
};

DLFLOW_INLINE double sum_of(const DoubleLanes& lanes) {
  double sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

DLFLOW_VECTOR_CLONES
void add_up_class(const Map& map, float c, const float* mask, const float* probabilities,
                  DiceSums& result) {
  DoubleLanes both = {}, all = {}, own = {};
  for_each_lanes(
      map.pixels, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes label = load<whole()>(mask + at, width);
        const Lanes p = load<whole()>(probabilities + at, width);  // 0 beyond the width
        const IntLanes is_own = label == broadcast(c), is_ignored = label == broadcast(kIgnored);
        both += to_double(select(is_own, p, Lanes{}));
        all += to_double(select(is_ignored, Lanes{}, p));
        Lanes ones = select(is_own, broadcast(1), Lanes{});
        for (int64_t i = width; i < kLanes; ++i) ones[i] = 0;
        own += to_double(ones);
      });
  result = {sum_of(both), sum_of(all), sum_of(own)};
}

std::vector<DiceSums> dice_sums(const Map& map, const float* mask, const float* probabilities) {
  std::vector<DiceSums> sums(size_t(map.classes));
  for (int64_t c = 0; c < map.classes; ++c) {
    add_up_class(map, float(c), mask, probabilities + c * map.pixels, sums[size_t(c)]);
  }
  return sums;
}

/// The share of each class in the mean over classes.
std::vector<double> class_shares(const PixelLoss& loss, int64_t classes) {
  std::vector<double> shares(size_t(classes), 1);
  double sum = 0;
  for (size_t c = 0; c < shares.size(); ++c) {
    if (!loss.class_weights.empty()) shares[c] = double(loss.class_weights[c]);
    sum += shares[c];
  }
  for (double& share : shares) share /= sum;
  return shares;
}

double dice_loss(const Map& map, std::span<const double> shares, const float* mask,
                 const float* probabilities) {
  double loss = 0;
  const std::vector<DiceSums> sums = dice_sums(map, mask, probabilities);
  for (size_t c = 0; c < sums.size(); ++c) loss += shares[c] * (1 - sums[c].dice());
  return loss;
}

/// The derivative of Dice by a class's probability, on the class's own pixels and on the others.
struct DiceSlopes {
  std::vector<float> own, other;
};

DiceSlopes dice_slopes(const Map& map, std::span<const double> shares, const float* mask,
                       const float* probabilities) {
  DiceSlopes slopes;
  const std::vector<DiceSums> sums = dice_sums(map, mask, probabilities);
  for (size_t c = 0; c < sums.size(); ++c) {
    const double dice = sums[c].dice();
    const double factor = shares[c] / (sums[c].probability + sums[c].pixels + 1);
    slopes.own.push_back(float(-factor * (2 - dice)));
    slopes.other.push_back(float(factor * dice));
  }
  return slopes;
}

/// The inputs of the backward pass of one sample.
struct BackwardMap {
  Map map;
  const float *mask, *probabilities;
  const Targets* targets;    ///< of cross-entropy; null: none
  const DiceSlopes* slopes;  ///< of Dice; null: none
  float cross_entropy;       ///< factor of cross-entropy
  float dice;                ///< factor of Dice
};

/// The gradient through the softmax. Cross-entropy: p * (sum of targets) - target. Dice: p * (slope
/// - the p-weighted mean of the slopes).
DLFLOW_VECTOR_CLONES
void backward_of_map(const BackwardMap& b, float* gradient) {
  const Map& map = b.map;
  for_each_lanes(
      map.pixels, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes label = load<whole()>(b.mask + at, width);
        const IntLanes is_ignored = label == broadcast(kIgnored);
        Lanes all = broadcast(b.targets != nullptr ? b.targets->all : 0), mean = {};
        for (int64_t c = 0; c < map.classes; ++c) {
          const IntLanes is_own = label == broadcast(float(c));
          const auto i = size_t(c);
          if (b.targets != nullptr) all += select(is_own, broadcast(b.targets->own[i]), Lanes{});
          if (b.slopes != nullptr) {
            mean += load<whole()>(b.probabilities + c * map.pixels + at, width) *
                    select(is_own, broadcast(b.slopes->own[i]), broadcast(b.slopes->other[i]));
          }
        }
        for (int64_t c = 0; c < map.classes; ++c) {
          const IntLanes is_own = label == broadcast(float(c));
          const auto i = size_t(c);
          const Lanes p = load<whole()>(b.probabilities + c * map.pixels + at, width);
          Lanes d = {};
          if (b.targets != nullptr) {
            const Lanes own = select(is_own, broadcast(b.targets->own[i]), Lanes{});
            d += (p * all - own - b.targets->even[i]) * b.cross_entropy;
          }
          if (b.slopes != nullptr) {
            const Lanes slope =
                select(is_own, broadcast(b.slopes->own[i]), broadcast(b.slopes->other[i]));
            d += p * (slope - mean) * b.dice;
          }
          store<whole()>(gradient + c * map.pixels + at, select(is_ignored, Lanes{}, d), width);
        }
      });
}

int64_t count_pixels(const Map& map, const float* mask) {
  int64_t count = 0;
  for (int64_t i = 0; i < map.pixels; ++i) count += mask[i] == kIgnored ? 0 : 1;
  return count;
}

}  // namespace

MaskSums measure_pixels(const PixelLoss& loss, const PixelScores& scores, const float* mask,
                        float* probabilities) {
  const Map map{scores.classes, scores.pixels};
  const Targets targets(loss, map.classes);
  const std::vector<double> shares = class_shares(loss, map.classes);
  MaskSums all;
  for (int64_t b = 0; b < scores.images; ++b) {
    const int64_t first = b * map.classes * map.pixels;
    const float* const labels = mask + b * map.pixels;
    const MaskSums sums =
        measure_map(map, targets, scores.numbers + first, labels, probabilities + first);
    if (sums.num_counted == 0) continue;
    if (loss.has_cross_entropy) all.loss += sums.loss / double(sums.num_counted);
    if (loss.has_dice) all.loss += dice_loss(map, shares, labels, probabilities + first);
    all.num_correct += sums.num_correct;
    all.num_counted += sums.num_counted;
  }
  return all;
}

void pixel_loss_backward(const PixelLoss& loss, const PixelScores& probabilities, const float* mask,
                         float scale, float* gradient) {
  const Map map{probabilities.classes, probabilities.pixels};
  const Targets targets(loss, map.classes);
  const std::vector<double> shares = class_shares(loss, map.classes);
  for (int64_t b = 0; b < probabilities.images; ++b) {
    const int64_t first = b * map.classes * map.pixels;
    const float *const labels = mask + b * map.pixels, *const p = probabilities.numbers + first;
    const DiceSlopes slopes = loss.has_dice ? dice_slopes(map, shares, labels, p) : DiceSlopes{};
    const int64_t counted = count_pixels(map, labels);
    const float share = counted > 0 ? scale / float(counted) : 0;
    backward_of_map({map, labels, p, loss.has_cross_entropy ? &targets : nullptr,
                     loss.has_dice ? &slopes : nullptr, share, scale},
                    gradient + first);
  }
}

}  // namespace dlflow::runtime
