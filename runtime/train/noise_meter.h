#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dlflow::runtime {

/// Estimates the gradient noise scale from what data parallelism computes anyway: the squared
/// lengths of the leaves' gradients and of their sum. Each rank measures its leaves and what it
/// gets of the sum; the numbers travel with the gradients of the next step, so that they cost no
/// message. One step in kEvery is measured, since to a small model it is time: whole batches only.
/// Source: McCandlish et al., arXiv 1812.06162, appendix A.1.
class NoiseMeter {
 public:
  static constexpr uint64_t kEvery = 8;
  static constexpr size_t kReportFloats = 2;

  struct Setup {
    size_t batch = 1;       ///< samples of a step
    size_t num_leaves = 1;  ///< of all ranks; with fewer than 2 there is nothing to measure
    size_t own_leaves = 1;
    size_t trainable = 0;     ///< of the sums, so many elements count
    bool counts_sums = true;  ///< each element of a sum must be counted on one rank
  };
  explicit NoiseMeter(const Setup& setup) : setup_(setup), leaves_(setup.own_leaves) {}

  /// Gradients and sums from now on are those of step `step`, of so many samples.
  void begin_step(uint64_t step, size_t samples);

  /// A part of the gradient of this rank's leaf `leaf`; elements [first, ...) of the sum.
  void add_gradient(size_t leaf, std::span<const float> gradient);

  /// Where the squared lengths of parts of the leaves' gradients can be added instead; empty in a
  /// step that is not measured.
  std::span<double> squares() { return measures_ ? std::span(leaves_) : std::span<double>(); }
  void add_sums(size_t first, std::span<const float> sums);

  /// What travels with the gradients of `leaf`, of the step before: written before its first
  /// add_gradient(); and its sum over all leaves.
  void write(size_t leaf, std::span<float, kReportFloats> report);
  void read(std::span<const float, kReportFloats> sums);

  /// The Euclidean length of the gradient in the step that was measured last; nothing before.
  std::optional<double> gradient_norm() const { return gradient_norm_; }

  /// tr(Sigma) / |G|^2 in samples since the last call, Sigma being the covariance of one sample's
  /// gradient and G their mean. Steps of far fewer samples learn nearly as much from each; those of
  /// far more learn hardly more. Nothing where it could not be estimated.
  std::optional<double> take();

 private:
  Setup setup_;
  bool measures_ = false, measured_ = false;  // this step; the one before
  std::vector<double> leaves_;                // squared lengths in the step measured last
  double sum_ = 0;
  double of_leaves_ = 0, of_sums_ = 0;  // of all ranks, over the steps since take()
  uint64_t steps_ = 0;
  std::optional<double> gradient_norm_;
};

}  // namespace dlflow::runtime
