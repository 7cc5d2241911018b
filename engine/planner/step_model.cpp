#include "engine/planner/step_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlflow::planner {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// The number of doublings between two numbers.
double octaves(double a, double b) { return std::abs(std::log2(a / b)); }

/// Whether every rank gets the messages of all, each with 4 bytes of place beside 4 of number.
bool is_gathered(const std::string& compression) {
  return compression == "topk" || compression == "mstopk" || compression == "dgc";
}

/// Encoding and decoding in the sums of runtime/compress/message_sum.h: a rank adds the messages of
/// all, or the shares of all, and then it encodes and sends the sum of its share.
double coding_seconds(const CompressorCost& cost, int ranks) {
  if (is_gathered(cost.method)) return cost.encode_s + ranks * cost.decode_s;
  const double others = double(ranks - 1) / ranks;
  return (2 - others) * cost.encode_s + 2 * others * cost.decode_s;
}

}  // namespace

StepModel::StepModel(const Measurement& measurement, Training training, double bandwidth)
    : measurement_(measurement),
      network_(measurement.network, bandwidth),
      training_(std::move(training)) {
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

/// The measured group that is nearest to these ranks and this batch.
const MeasuredPoint& StepModel::nearest(Layout layout, double batch) const {
  const auto distance = [&](const MeasuredPoint& point) {
    const double samples = training_.per_rank
                               ? octaves(point.samples_per_rank, batch / layout.ranks)
                               : octaves(point.batch, batch);
    // A single rank waits for no other, so that it predicts no group, and no group predicts it.
    const bool is_alike = (point.ranks == 1) == (layout.ranks == 1);
    return octaves(point.ranks, layout.ranks) + octaves(point.nodes, layout.nodes) + samples +
           (is_alike ? 0 : 100) - 1e-9 * point.leaf_samples;
  };
  return *std::ranges::min_element(points_, {}, distance);
}

int StepModel::most_ranks() const {
  if (!training_.exact || measurement_.layers.empty() || training_.per_rank) return 0;
  const MeasuredPoint& point = nearest({1, 1}, training_.batch);
  return int(std::lround(point.batch / point.leaf_samples));
}

double StepModel::noise_scale() const {
  const MeasuredPoint* newest = nullptr;
  for (const MeasuredPoint& point : points_) {
    const bool is_newer = newest == nullptr || point.at >= newest->at;
    if (point.noise_scale.value_or(0) > 0 && is_newer) newest = &point;
  }
  return newest == nullptr ? 0 : *newest->noise_scale;
}

/// Uses points with as many ranks on a node, which share its memory and caches; if there are none,
/// the nearest points.
double StepModel::seconds_of_leaf(Layout layout, double leaf_samples,
                                  const std::vector<double> MeasuredPoint::*times,
                                  size_t layer) const {
  const auto away = [&](const MeasuredPoint& point) {
    return octaves(double(point.ranks) / point.nodes, double(layout.ranks) / layout.nodes);
  };
  const double least = away(*std::ranges::min_element(points_, {}, away));
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
    const auto seconds = [&](auto times) {
      return seconds_of_leaf(layout, work.leaf_samples, times, layer);
    };
    work.forward_s.push_back(seconds(&MeasuredPoint::forward_s));
    work.backward_s.push_back(seconds(&MeasuredPoint::backward_s));
  }
  return work;
}

/// The cost for `bytes` of gradients: as measured, or only the bytes if it was not measured.
CompressorCost StepModel::cost_of(const std::string& compression, double bytes) const {
  for (CompressorCost cost : measurement_.compressors) {
    if (cost.method != compression) continue;
    for (double* part : {&cost.message_bytes, &cost.encode_s, &cost.decode_s}) {
      *part *= bytes / cost.bytes;
    }
    return cost;
  }
  double share = is_gathered(compression) ? 2 * training_.density : 1;
  if (compression == "randomk") share = training_.density;
  if (compression == "fp16" || compression == "bf16") share = 0.5;
  if (compression == "int8") share = 0.25;
  return {compression, bytes, share * bytes};
}

/// Without compression and between nodes, runtime/reduce cuts a bucket into pieces of 256 KiB. Each
/// further round of a piece meets pauses of ranks with a quota; at most, it takes as much longer as
/// computing does.
double StepModel::bucket_seconds(Layout layout, double bytes,
                                 const std::string& compression) const {
  if (layout.ranks == 1 || !network_.knows(layout.ranks, layout.nodes)) return 0;
  const CompressorCost cost = cost_of(compression, bytes);
  const double coding = coding_seconds(cost, layout.ranks);
  if (is_gathered(compression)) {
    const AlphaBeta link = network_.link(layout.nodes);
    return coding + all_gather_seconds(link, layout.ranks, cost.message_bytes);
  }
  const bool is_cut = compression == "none" && layout.nodes > 1 && !measurement_.layers.empty();
  const double pieces = is_cut ? std::max(1.0, bytes / (256 << 10)) : 1;
  const double piece = cost.message_bytes / pieces;
  double seconds = network_.allreduce(layout.ranks, layout.nodes, piece);
  if (layout.nodes > 1) {
    const double pause = pause_seconds(measurement_.core_share, measurement_.core_period_s) *
                         network_.further_rounds(layout.ranks, layout.nodes, piece);
    seconds = std::min(seconds + pause, seconds / measurement_.core_share);
  }
  return coding + pieces * seconds;
}

/// The delay of the next forward pass of one leaf, whose layers wait for their sums. Buckets as
/// runtime/reduce makes them: in reverse layer order, up to 8 MiB on one node and 1 MiB on several.
/// On one node the ranks' own threads add, so that nothing hides it.
double StepModel::exposed_of_layers(Layout layout, const Work& work,
                                    const std::string& compression) const {
  const double most_bytes = layout.nodes == 1 ? 8 << 20 : 1 << 20;
  const double computed = work.leaves * (sum_of(work.forward_s) + sum_of(work.backward_s));
  std::vector<Bucket> buckets;
  std::vector<size_t> bucket_of(work.forward_s.size());
  double ready = computed - sum_of(work.backward_s), bytes = 0, seconds = 0;
  for (size_t layer = work.backward_s.size(); layer-- > 0;) {
    ready += work.backward_s[layer];
    bytes += measurement_.layers[layer].gradient_bytes;
    bucket_of[layer] = buckets.size();
    if (bytes < most_bytes && layer > 0) continue;
    const size_t urgency = training_.priority ? layer : buckets.size();
    buckets.push_back({ready, bucket_seconds(layout, bytes, compression), urgency});
    seconds += buckets.back().seconds;
    bytes = 0;
  }
  if (layout.nodes == 1) return seconds;
  const std::vector<double> ends = replay(buckets);
  std::vector<double> free_s;
  for (const size_t bucket : bucket_of) free_s.push_back(ends[bucket]);
  return chain_end(computed, work.forward_s, free_s) - sum_of(work.forward_s) - computed;
}

/// A script waits for all sums at the end of its backward pass.
double StepModel::exposed_of_buckets(Layout layout, const MeasuredPoint& point, double scale,
                                     const std::string& compression) const {
  std::vector<Bucket> buckets;
  for (const MeasuredBucket& bucket : point.buckets) {
    buckets.push_back({bucket.ready_s * scale, bucket_seconds(layout, bucket.bytes, compression),
                       buckets.size()});
  }
  if (buckets.empty()) return 0;
  return std::max(0.0, replay(buckets).back() - buckets.back().ready_s);
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
  time.compute_s = here.leaves * (sum_of(here.forward_s) + sum_of(here.backward_s));
  const double before = sum_of(near.backward_s);
  time.exposed_s =
      measurement_.layers.empty()
          ? exposed_of_buckets(layout, near, before > 0 ? time.compute_s / before : 1, compression)
          : exposed_of_layers(layout, here, compression);
  time.exposed_s += addition_s() * (here.leaves - 1);
  if (layout.ranks > 1) {
    const CompressorCost cost = cost_of(compression, measurement_.parameters_bytes);
    time.wire_bytes = cost.message_bytes;
    time.coding_s = coding_seconds(cost, layout.ranks);
  }
  std::vector<Sample> memory;
  for (const MeasuredPoint& point : points_) {
    if (point.memory_bytes > 0) memory.push_back({1, point.leaf_samples, point.memory_bytes});
  }
  const double more = fit(memory).beta * (here.leaf_samples - near.leaf_samples);
  time.memory_bytes = std::max(0.0, near.memory_bytes + more);
  return time;
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
