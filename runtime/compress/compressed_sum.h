#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_floats.h"
#include "runtime/collectives/link.h"
#include "runtime/compress/compression.h"
#include "runtime/compress/power_sgd.h"

namespace dlflow::runtime {

/// Consecutive elements of a flat buffer.
struct Piece {
  size_t first = 0, count = 0;
  bool operator==(const Piece&) const = default;
};

/// The parts of a flat buffer of gradients that are compressed; the rest is summed as it is.
struct CompressedParts {
  std::vector<Piece> pieces;     ///< ascending
  std::vector<Matrix> matrices;  ///< for PowerSgd: each in its own piece, ascending
  size_t num_gradients = 0;      ///< the first elements, which have momentum
};

/// Sums ranges of a flat buffer over ranks by one method of compression, and keeps each rank's
/// unsent values, as large as the buffer. Several ranges may be under way at once.
class CompressedSum {
 public:
  CompressedSum(const Compression& compression, CompressedParts parts, size_t num_elements,
                uint64_t seed);

  /// Begins step `step` of the run, in epoch `epoch`, both from 0. No range may be under way.
  void begin(uint64_t step, uint64_t epoch);

  /// Replaces `values`, elements from `first` on, by their approximate sum over the ranks of
  /// `link`; the same bits on all. A single rank leaves nothing unsent. Collective; the same range
  /// in every step. This and the memory of `values` outlive the task.
  Task sum(Link link, size_t first, std::span<float> values);

  const Compression& how() const { return compression_; }

  /// Whether a step has begun. Until then the kept values are as loaded.
  bool has_begun() const { return has_begun_; }

  /// The ranges that this rank has summed so far; it keeps nothing for others.
  const std::vector<Piece>& ranges() const { return ranges_; }

  /// The state kept between steps, by elements of the buffer: unsent values, and velocities, which
  /// are empty for methods other than Dgc. Together, all ranks' states are the updates not yet
  /// applied.
  std::span<float> residual() { return {residual_.get(), num_elements_}; }
  std::span<float> velocity() { return {velocity_.get(), velocity_ ? num_elements_ : 0}; }

  /// The same on all ranks; empty for methods other than PowerSgd.
  std::span<float> right_factors() { return power_sgd_ ? power_sgd_->right() : std::span<float>(); }

 private:
  struct Division;
  void add_momentum(const Piece& piece, size_t first, std::span<float> values);
  void sum_alone(size_t first, std::span<float> values);
  Division divide(size_t first, size_t count) const;
  Task sum_rest(Link link, const std::vector<Piece>& pieces, size_t first, std::span<float> values);
  Task sum_compressed(Link link, const std::vector<Piece>& pieces, size_t first,
                      std::span<float> values);
  Task sum_fed_back(Link link, size_t first, Unsent unsent, std::span<float> values);
  Task sum_messages(Link link, Occasion occasion, Unsent unsent, std::span<float> sum) const;

  Compression compression_;
  CompressedParts parts_;
  size_t num_elements_;
  std::unique_ptr<Compressor> compressor_;
  std::optional<PowerSgd> power_sgd_;
  AlignedFloats residual_, velocity_;
  Occasion now_;
  bool has_begun_ = false;
  std::vector<Piece> ranges_;
};

/// The part that Deep Gradient Compression adds to top-k: each rank applies momentum itself and
/// sends the largest accumulated velocities, not gradients, so that late numbers have the weight
/// that they would have had. Sending resets a velocity to 0 (compress()), so that a stale direction
/// does not continue: momentum factor masking.
/// Source: Lin, Han, Mao, Wang and Dally, "Deep gradient compression", ICLR 2018.

/// Sets velocity = momentum * velocity + gradient, and `gradient` to the result, for each number.
void correct_momentum(float momentum, std::span<float> velocity, std::span<float> gradient);

/// Local gradient clipping: scales `gradient` down to the norm `most` if it exceeds that.
/// Non-finite numbers stay non-finite.
void clip_norm(double most, std::span<float> gradient);

}  // namespace dlflow::runtime
