#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dlflow::runtime {

/// Estimates the gradient noise scale from values that data parallelism computes anyway: the
/// squared norms of the leaves' gradients and of their sum. Each rank measures its leaves and its
/// part of the sum; the values travel with the gradients of the next step, so they cost no message.
/// Only one step in kEvery is measured, which saves time in small models, and only whole batches.
/// Source: McCandlish et al., arXiv 1812.06162, appendix A.1.
class NoiseMeter {
 public:
  static constexpr uint64_t kEvery = 8;
  static constexpr size_t kReportFloats = 2;

  struct Setup {
    size_t batch = 1;       ///< samples of a step
    size_t num_leaves = 1;  ///< over all ranks; nothing is measured with fewer than 2
    size_t own_leaves = 1;
    size_t trainable = 0;     ///< number of leading elements of the sum that count
    bool counts_sums = true;  ///< each element of a sum must be counted on exactly one rank
  };
  explicit NoiseMeter(const Setup& setup) : setup_(setup), leaves_(setup.own_leaves) {}

  /// Gradients and sums from now on belong to step `step`, which has `samples` samples.
  void begin_step(uint64_t step, size_t samples);

  /// Adds a part of the gradient of this rank's leaf `leaf`, or elements [first, ...) of the sum.
  void add_gradient(size_t leaf, std::span<const float> gradient);

  /// Accumulators for squared norms of the leaves' gradients, an alternative to add_gradient();
  /// empty in a step that is not measured.
  std::span<double> squares() { return measures_ ? std::span(leaves_) : std::span<double>(); }
  void add_sums(size_t first, std::span<const float> sums);

  /// Writes the values of the previous step that travel with the gradients of `leaf`; must be
  /// called before its first add_gradient(). read() takes their sum over all leaves.
  void write(size_t leaf, std::span<float, kReportFloats> report);
  void read(std::span<const float, kReportFloats> sums);

  /// The Euclidean norm of the gradient in the last measured step; nothing before.
  std::optional<double> gradient_norm() const { return gradient_norm_; }

  /// Returns tr(Sigma) / |G|^2 in samples since the last call; Sigma is the covariance of one
  /// sample's gradient and G their mean. Far smaller batches learn nearly as much from each sample;
  /// far larger ones hardly learn more per step. Nothing if it could not be estimated.
  std::optional<double> take();

 private:
  Setup setup_;
  bool measures_ = false, measured_ = false;  // this step; the previous one
  std::vector<double> leaves_;                // squared norms in the last measured step
  double sum_ = 0;
  double of_leaves_ = 0, of_sums_ = 0;  // over all ranks, and the steps since take()
  uint64_t steps_ = 0;
  std::optional<double> gradient_norm_;
};

}  // namespace dlflow::runtime
