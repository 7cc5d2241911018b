#pragma once

#include <string>
#include <vector>

#include "engine/planner/measurement.h"
#include "engine/planner/network.h"

namespace dlflow::planner {

/// The parts of a workflow's training that decide the time of a step.
struct Training {
  double batch = 0;       ///< samples of a step; 0: as measured
  bool per_rank = false;  ///< `batch` is the share of a rank, so that a step grows with the ranks
  bool exact = true;      ///< `precision: {reduction: exact}`
  bool priority = true;
  std::string compression = "none";
  double density = 0.01;           ///< of sparse compression
  double epochs = 0, samples = 0;  ///< 0: not known
};

struct Layout {
  int ranks = 1, nodes = 1;
  bool fits = true;  ///< within the limits of the profile, and laid out as it does
};

struct StepTime {
  double step_s = 0, exposed_s = 0;  ///< exposed: communication that nothing hides
  double compute_s = 0;
  double memory_bytes = 0;  ///< of a rank
  double wire_bytes = 0;    ///< sent by a rank: its compressed message, or all gradients
  double coding_s = 0;      ///< encoding and decoding, part of exposed_s unless hidden
};

/// Predicts the time of a step: a line t0 + t1 * samples for each layer, buckets in reverse layer
/// order, a replay of their sums. Computing is then scaled, and waiting shifted, as the nearest
/// measured group is to its own prediction, so that a measured group is predicted as it was.
class StepModel {
 public:
  /// `measurement` must outlive this. `training.batch` of 0 becomes the largest that was measured.
  /// \param bandwidth  as Network's
  StepModel(const Measurement& measurement, Training training, double bandwidth = 1);

  const Measurement& measurement() const { return measurement_; }
  const Training& training() const { return training_; }
  const Network& network() const { return network_; }

  /// Samples of a step on so many ranks, as the workflow has them.
  double own_batch(int ranks) const { return training_.batch * (training_.per_rank ? ranks : 1); }

  /// Leaves of a step, which limit the ranks that have work; 0: no limit.
  int most_ranks() const;

  /// The layouts' level of the network must have been measured (Network::knows).
  StepTime predict(Layout layout, double batch, const std::string& compression) const;

  /// The newest noise scale of the gradient that was measured, in samples; 0: none.
  double noise_scale() const;

 private:
  /// Leaves of a rank, and the seconds of each by layer.
  struct Work {
    double leaves = 1, leaf_samples = 1;
    std::vector<double> forward_s, backward_s;
  };

  const MeasuredPoint& nearest(Layout layout, double batch) const;
  Work work(Layout layout, double batch) const;
  double seconds_of_leaf(Layout layout, double leaf_samples,
                         const std::vector<double> MeasuredPoint::*times, size_t layer) const;
  CompressorCost cost_of(const std::string& compression, double bytes) const;
  double bucket_seconds(Layout layout, double bytes, const std::string& compression) const;
  double exposed_of_layers(Layout layout, const Work& work, const std::string& compression) const;
  double exposed_of_buckets(Layout layout, const MeasuredPoint& point, double scale,
                            const std::string& compression) const;
  double addition_s() const;
  StepTime modelled(Layout layout, double batch, const std::string& compression) const;

  const Measurement& measurement_;
  Network network_;
  Training training_;
  std::vector<MeasuredPoint> points_;  ///< in the training's mode, if it was measured
};

}  // namespace dlflow::planner
