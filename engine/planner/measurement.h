#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"

/// A measured training, as `dlflow-train --profile-steps` and the backend of PyTorch write it:
/// docs/contributor/runtime.md lists the fields. Times are seconds of a step on rank 0.
namespace dlflow::planner {

struct MeasuredLayer {
  std::string name;
  double gradient_bytes = 0;
};

/// An all-reduce of a step; they are in the order in which they start.
struct MeasuredBucket {
  double bytes = 0, ready_s = 0;  ///< ready: from the start of the step
};

/// One group of ranks with one size of leaf.
struct MeasuredPoint {
  int ranks = 1, nodes = 1;
  std::string mode = "exact";
  int64_t at = 0;  ///< seconds since 1970
  double batch = 0, samples_per_rank = 0, leaf_samples = 0, leaves_per_rank = 1;
  double step_s = 0;
  std::vector<double> forward_s, backward_s;  ///< parallel to Measurement::layers
  double update_s = 0, other_s = 0, data_wait_s = 0;
  double communication_wait_s = 0;
  std::optional<double> noise_scale;
  double memory_bytes = 0;
  std::vector<MeasuredBucket> buckets;
};

/// The time of an all-reduce.
struct NetworkTime {
  int ranks = 2, nodes = 1;
  std::string algorithm;
  double bytes = 0, seconds = 0;
};

/// The message of a method of compression for `bytes` of gradients, and its cost.
struct CompressorCost {
  std::string method;
  double bytes = 1, message_bytes = 1;
  double encode_s = 0, decode_s = 0;  ///< decode: of one message
};

/// A convolution that has been measured with two algorithms: seconds of its three passes in a step.
struct LayerAlgorithms {
  std::string layer;
  double leaf_samples = 0;
  std::string used;  ///< by the training: "direct" or "winograd"
  double direct_s = 0, winograd_s = 0;
};
DLFLOW_DEFINE_FIELDS(LayerAlgorithms, layer, leaf_samples, used, direct_s, winograd_s)

struct Measurement {
  std::string model, compute;
  double parameters_bytes = 0;
  double samples = 0;                        ///< of an epoch; 0: not known
  double core_share = 1, core_period_s = 0;  ///< of a rank's cores, by the quota of its cgroup
  std::vector<MeasuredLayer> layers;
  std::vector<MeasuredPoint> points;
  std::vector<NetworkTime> network;
  std::vector<CompressorCost> compressors;
  std::vector<LayerAlgorithms> algorithms;
};

/// Throws Error{Corrupt}, which begins with `what`, the name of the file.
Measurement measurement_from_json(Json json, const std::string& what);

/// The measurements CACHE/measurements/STEP-*.json, the newest file first.
std::vector<std::filesystem::path> measurement_files(const std::filesystem::path& cache,
                                                     const std::string& step);

}  // namespace dlflow::planner
