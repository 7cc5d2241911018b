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

/// Neighbours in a flat buffer.
struct Piece {
  size_t first = 0, count = 0;
  bool operator==(const Piece&) const = default;
};

/// The parts of a flat buffer of gradients that are compressed; the rest is summed as it is.
struct CompressedParts {
  std::vector<Piece> pieces;     ///< ascending
  std::vector<Matrix> matrices;  ///< of PowerSgd: each in a piece of its own, ascending
  size_t num_gradients = 0;      ///< elements that have a momentum; what follows has none
};

/// Sums ranges of a flat buffer over ranks by one method of compression, and keeps what each rank
/// has not sent yet, as large as the buffer. Several ranges may be under way at once.
class CompressedSum {
 public:
  CompressedSum(const Compression& compression, CompressedParts parts, size_t num_elements,
                uint64_t seed);

  /// The sums that follow are of step `step` of the run, in epoch `epoch`, both from 0. No range is
  /// under way.
  void begin(uint64_t step, uint64_t epoch);

  /// Replaces `values`, elements from `first` on, by what passes for their sum over the ranks of
  /// `link`; the same bits on all. Of one rank alone nothing is left out. Collective; the same
  /// range in every step. This and what `values` refers to outlive the task.
  Task sum(Link link, size_t first, std::span<float> values);

  const Compression& how() const { return compression_; }

  /// Whether there was a step. Until then what is kept is as it was loaded.
  bool has_begun() const { return has_begun_; }

  /// Which ranges this rank has summed so far; of others it keeps nothing.
  const std::vector<Piece>& ranges() const { return ranges_; }

  /// What goes on from step to step, by elements of the buffer: what is not sent yet, and, empty
  /// for other methods than Dgc, velocities. All ranks' together are what was not applied yet.
  std::span<float> residual() { return {residual_.get(), num_elements_}; }
  std::span<float> velocity() { return {velocity_.get(), velocity_ ? num_elements_ : 0}; }

  /// The same on all ranks; empty for other methods than PowerSgd.
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

}  // namespace dlflow::runtime
