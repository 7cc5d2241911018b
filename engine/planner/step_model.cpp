#include "engine/planner/step_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlflow::planner {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// How many times the one is larger, in powers of two.
double octaves(double a, double b) { return std::abs(std::log2(a / b)); }

double per_node(double ranks, double nodes) { return ranks / nodes; }

/// What a compression leaves of a gradient of fp32; sparse ones have formulas of their own.
double share_of(const std::string& compression) {
  if (compression == "fp16" || compression == "bf16") return 0.5;
  if (compression == "int8") return 0.25;
  return 1;
}

bool is_sparse(const std::string& compression) {
  return compression == "topk" || compression == "mstopk" || compression == "randomk" ||
         compression == "dgc";
}

}  // namespace

StepModel::StepModel(const Measurement& measurement, const Network& network, Training training)
    : measurement_(measurement), network_(network), training_(std::move(training)) {
  const std::string mode = training_.exact ? "exact" : "fast";
  std::ranges::copy_if(measurement.points, std::back_inserter(points_),
                       [&](const MeasuredPoint& point) { return point.mode == mode; });
  if (points_.empty()) points_ = measurement.points;
  if (training_.batch > 0) return;
  for (const MeasuredPoint& point : points_) {
    training_.batch =
        std::max(training_.batch, training_.per_rank ? point.samples_per_rank : point.batch);
  }
}

double StepModel::Work::total_s() const {
  return leaves * (sum_of(forward_s) + sum_of(backward_s));
}

const MeasuredPoint& StepModel::nearest(Layout layout, double batch) const {
  const auto distance = [&](const MeasuredPoint& point) {
    const double samples = training_.per_rank
                               ? octaves(point.samples_per_rank, batch / layout.ranks)
                               : octaves(point.batch, batch);
    // One rank waits for none: another group says nothing of it, nor it of others.
    const bool is_alone = layout.ranks == 1;
    return octaves(point.ranks, layout.ranks) + octaves(point.nodes, layout.nodes) + samples +
           ((point.ranks == 1) == is_alone ? 0 : 100) - 1e-9 * point.leaf_samples;
  };
  return *std::ranges::min_element(points_, {}, distance);
}

int StepModel::most_ranks() const {
  if (!training_.exact || measurement_.layers.empty() || training_.per_rank) return 0;
  const MeasuredPoint& point = nearest({1, 1}, training_.batch);
  return int(std::lround(point.batch / point.leaf_samples));
}

double StepModel::noise_scale() const {
  double newest = 0;
  int64_t at = -1;
  for (const MeasuredPoint& point : points_) {
    if (point.noise_scale.value_or(0) <= 0 || point.at < at) continue;
    newest = *point.noise_scale;
    at = point.at;
  }
  return newest;
}

double StepModel::gradient_bytes() const {
  double bytes = 0;
  for (const MeasuredLayer& layer : measurement_.layers) bytes += layer.gradient_bytes;
  return bytes > 0 ? bytes : measurement_.parameters_bytes;
}

/// From points with as many ranks on a node, which share its memory and caches; else the nearest.
double StepModel::seconds_of_leaf(Layout layout, double leaf_samples,
                                  const std::vector<double> MeasuredPoint::*times,
                                  size_t layer) const {
  const double here = per_node(layout.ranks, layout.nodes);
  const auto away = [&](const MeasuredPoint& point) {
    return octaves(per_node(point.ranks, point.nodes), here);
  };
  double least = away(points_.front());
  for (const MeasuredPoint& point : points_) least = std::min(least, away(point));
  std::vector<Sample> samples;
  for (const MeasuredPoint& point : points_) {
    const double seconds = (point.*times)[layer] / point.leaves_per_rank;
    if (away(point) > least + 1e-9 || seconds <= 0) continue;
    samples.push_back({1, point.leaf_samples, seconds});
  }
  const AlphaBeta line = fit(samples);
  return line.alpha + line.beta * leaf_samples;
}

StepModel::Work StepModel::work(Layout layout, double batch) const {
  const MeasuredPoint& near = nearest(layout, batch);
  Work work;
  if (training_.exact && !measurement_.layers.empty()) {
    const double leaves = std::round(near.batch / near.leaf_samples) *
                          (training_.per_rank ? double(layout.ranks) / near.ranks : 1);
    work.leaves = std::ceil(leaves / layout.ranks - 1e-9);
    work.leaf_samples = batch / leaves;
  } else {
    work.leaves = near.leaves_per_rank;
    work.leaf_samples = batch / layout.ranks / work.leaves;
  }
  for (size_t layer = 0; layer < near.forward_s.size(); ++layer) {
    work.forward_s.push_back(
        seconds_of_leaf(layout, work.leaf_samples, &MeasuredPoint::forward_s, layer));
    work.backward_s.push_back(
        seconds_of_leaf(layout, work.leaf_samples, &MeasuredPoint::backward_s, layer));
  }
  return work;
}

double StepModel::bucket_seconds(Layout layout, double bytes,
                                 const std::string& compression) const {
  if (layout.ranks == 1) return 0;
  if (is_sparse(compression)) {
    return sparse_seconds(network_.link(layout.nodes), layout.ranks, bytes, training_.density);
  }
  return network_.allreduce(layout.ranks, layout.nodes, bytes * share_of(compression));
}

/// The end of the next forward pass of one leaf, whose layers wait for their sums, less the time of
/// that pass. Buckets as runtime/reduce makes them: in reverse layer order, up to 8 MiB on one node
/// and 1 MiB on several. On one node the ranks' own threads add, so nothing hides it.
double StepModel::end_of_layers(Layout layout, const Work& work,
                                const std::string& compression) const {
  const bool is_one_node = layout.nodes == 1;
  const double most_bytes = is_one_node ? double(8 << 20) : double(1 << 20);
  std::vector<Bucket> buckets;
  std::vector<size_t> bucket_of(work.forward_s.size());
  double ready = work.total_s() - sum_of(work.backward_s), bytes = 0;
  for (size_t layer = work.backward_s.size(); layer-- > 0;) {
    ready += work.backward_s[layer];
    bytes += measurement_.layers[layer].gradient_bytes;
    bucket_of[layer] = buckets.size();
    if (bytes < most_bytes && layer > 0) continue;
    buckets.push_back({ready, bucket_seconds(layout, bytes, compression), layer});
    bytes = 0;
  }
  if (is_one_node) {
    double sum = work.total_s();
    for (const Bucket& bucket : buckets) sum += bucket.seconds;
    return sum;
  }
  const auto ends = replay(buckets, training_.priority ? SendOrder::Priority : SendOrder::Fifo);
  std::vector<double> free_s;
  for (const size_t bucket : bucket_of) free_s.push_back(ends[bucket]);
  return chain_end(work.total_s(), work.forward_s, free_s) - sum_of(work.forward_s);
}

/// A script waits for all sums at the end of its backward pass.
double StepModel::end_of_buckets(Layout layout, const MeasuredPoint& point, double scale,
                                 const std::string& compression) const {
  std::vector<Bucket> buckets;
  for (const MeasuredBucket& bucket : point.buckets) {
    buckets.push_back(
        {bucket.ready_s * scale, bucket_seconds(layout, bucket.bytes, compression), 0});
  }
  if (buckets.empty()) return 0;
  const double late = replay(buckets, SendOrder::Fifo).back() - buckets.back().ready_s;
  return std::max(0.0, late);
}

/// One rank waits for no other: its communication is the addition of its own leaves.
double StepModel::addition_s() const {
  const MeasuredPoint& alone = nearest({1, 1}, own_batch(1));
  if (alone.ranks > 1 || alone.leaves_per_rank < 2) return 0;
  return alone.communication_wait_s / (alone.leaves_per_rank - 1);
}

StepTime StepModel::modelled(Layout layout, double batch, const std::string& compression) const {
  const MeasuredPoint& near = nearest(layout, batch);
  const Work here = work(layout, batch);
  StepTime time;
  time.compute_s = here.total_s();
  if (measurement_.layers.empty()) {
    const double before = sum_of(near.backward_s);
    time.exposed_s =
        end_of_buckets(layout, near, before > 0 ? time.compute_s / before : 1, compression);
  } else {
    time.exposed_s = end_of_layers(layout, here, compression) - time.compute_s;
  }
  time.exposed_s += addition_s() * (here.leaves - 1);
  time.memory_bytes = memory_of(near, here.leaf_samples);
  return time;
}

double StepModel::memory_of(const MeasuredPoint& near, double leaf_samples) const {
  std::vector<Sample> samples;
  for (const MeasuredPoint& point : points_) {
    if (point.memory_bytes > 0) samples.push_back({1, point.leaf_samples, point.memory_bytes});
  }
  const AlphaBeta line = fit(samples);
  return std::max(0.0, near.memory_bytes + line.beta * (leaf_samples - near.leaf_samples));
}

StepTime StepModel::predict(Layout layout, double batch, const std::string& compression) const {
  StepTime time = modelled(layout, batch, compression);
  const MeasuredPoint& near = nearest(layout, batch);
  const StepTime there = modelled({near.ranks, near.nodes}, near.batch, training_.compression);
  if (there.compute_s > 0) {
    time.compute_s *= (sum_of(near.forward_s) + sum_of(near.backward_s)) / there.compute_s;
  }
  time.exposed_s = std::max(0.0, time.exposed_s + near.communication_wait_s - there.exposed_s);
  const double share = batch / layout.ranks / near.samples_per_rank;
  time.step_s =
      time.compute_s + time.exposed_s + near.update_s + near.other_s + near.data_wait_s * share;
  if (layout.ranks == 1) time.exposed_s = 0;  // it adds up its own leaves
  return time;
}

}  // namespace dlflow::planner
