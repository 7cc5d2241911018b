#pragma once

#include "engine/planner/measurement.h"

namespace dlflow::test {

using planner::Measurement, planner::MeasuredPoint;

/// Two layers, 8 leaves of 16 samples; each leaf takes 1 and 2 ms forward, 2 and 4 ms backward.
inline MeasuredPoint measured_point(int ranks, int nodes) {
  MeasuredPoint point;
  point.ranks = ranks;
  point.nodes = nodes;
  point.batch = 128;
  point.samples_per_rank = 128.0 / ranks;
  point.leaf_samples = 16;
  point.leaves_per_rank = 8.0 / ranks;
  point.forward_s = {0.001 * point.leaves_per_rank, 0.002 * point.leaves_per_rank};
  point.backward_s = {0.002 * point.leaves_per_rank, 0.004 * point.leaves_per_rank};
  point.update_s = 0.001;
  point.step_s = 0.009 * point.leaves_per_rank + 0.001;
  return point;
}

/// Ranks on nodes of their own, over a link of 1 GB/s without latency.
inline Measurement measured(double gradient_bytes) {
  Measurement measurement;
  measurement.layers = {{"first", gradient_bytes}, {"second", gradient_bytes}};
  measurement.points = {measured_point(1, 1)};
  for (double bytes = 1024; bytes <= 1 << 24; bytes *= 4) {
    measurement.network.push_back({2, 2, "ring", bytes, bytes * 1e-9});
  }
  return measurement;
}

}  // namespace dlflow::test
