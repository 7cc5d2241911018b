#include "engine/planner/measurement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"

namespace dlflow::planner {

constexpr const char* kFormat = "dlflow measurement 1";

DLFLOW_DEFINE_FIELDS(MeasuredBucket, bytes, ready_s)
DLFLOW_DEFINE_FIELDS(MeasuredLayer, name, gradient_bytes)
DLFLOW_DEFINE_FIELDS(CompressorCost, method, bytes, message_bytes, encode_s, decode_s)

template <class Archive>
void list_fields(Archive& archive, NetworkTime& value) {
  DLFLOW_FIELDS(ranks, nodes, bytes, seconds);
  DLFLOW_FIELDS_IF_THERE(algorithm);
}

template <class Archive>
void list_fields(Archive& archive, MeasuredPoint& value) {
  DLFLOW_FIELDS(ranks, nodes, at, step_s);
  DLFLOW_FIELDS_IF_THERE(mode, batch, samples_per_rank, leaf_samples, leaves_per_rank, forward_s,
                         backward_s, update_s, other_s, data_wait_s, communication_wait_s,
                         noise_scale, memory_bytes, buckets);
}

template <class Archive>
void list_fields(Archive& archive, Measurement& value) {
  DLFLOW_FIELDS(model, compute, points, network);
  DLFLOW_FIELDS_IF_THERE(parameters_bytes, samples, layers, compressors, algorithms, core_share,
                         core_period_s);
}

namespace {

void require(bool holds, const std::string& what, const std::string& problem) {
  if (!holds) throw Error(Errc::Corrupt, what + ": " + problem + "; measure the step again");
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

void check_measurement(const Measurement& measurement, const std::string& what) {
  const size_t layers = measurement.layers.size();
  require(!measurement.points.empty(), what, "it has no points");
  for (const MeasuredPoint& point : measurement.points) {
    require(point.ranks >= 1 && point.nodes >= 1 && point.nodes <= point.ranks, what,
            "a point has no ranks, or fewer ranks than nodes");
    require(is_time(point.step_s) && point.step_s > 0, what, "a point has no step time");
    require(point.batch >= 0 && point.leaves_per_rank >= 1, what, "a point has no samples");
    for (const auto* times : {&point.forward_s, &point.backward_s}) {
      require(times->size() == layers, what,
              "a point has the times of " + std::to_string(times->size()) +
                  " layers, but the model has " + std::to_string(layers));
      require(std::ranges::all_of(*times, is_time), what, "a layer's time is not valid");
    }
  }
  for (const NetworkTime& time : measurement.network) {
    require(time.ranks >= 2 && time.nodes >= 1 && time.nodes <= time.ranks && time.bytes > 0 &&
                is_time(time.seconds) && time.seconds > 0,
            what, "a time of the network has no ranks, bytes or seconds");
  }
  require(measurement.core_share > 0 && measurement.core_share <= 1 &&
              is_time(measurement.core_period_s),
          what, "its CPU quota is not above 0 and at most 1 core");
  for (const CompressorCost& cost : measurement.compressors) {
    require(cost.bytes > 0 && cost.message_bytes > 0 && is_time(cost.encode_s) &&
                is_time(cost.decode_s),
            what, "a compression has no bytes or seconds");
  }
  for (const LayerAlgorithms& layer : measurement.algorithms) {
    require(is_time(layer.direct_s) && is_time(layer.winograd_s), what,
            "an algorithm of layer '" + layer.layer + "' has no seconds");
  }
}

/// A null is a missing field: scripts do not measure all of them.
void remove_nulls(Json& json) {
  if (json.is_object()) {
    for (auto field = json.begin(); field != json.end();) {
      field = field->is_null() ? json.erase(field) : std::next(field);
    }
  }
  if (!json.is_structured()) return;
  for (Json& part : json) remove_nulls(part);
}

/// The samples of a script are not measured: each rank has one share.
void fill_in(MeasuredPoint& point, bool has_layers) {
  if (!has_layers) {
    point.forward_s = {0};
    point.backward_s = {std::max(
        0.0, point.step_s - point.update_s - point.data_wait_s - point.communication_wait_s)};
    point.other_s = 0;
  }
  if (point.batch < 1) point.batch = point.ranks;
  if (point.samples_per_rank <= 0) point.samples_per_rank = point.batch / point.ranks;
  if (point.leaf_samples <= 0) point.leaf_samples = point.samples_per_rank / point.leaves_per_rank;
}

}  // namespace

Measurement measurement_from_json(Json json, const std::string& what) {
  const std::string format = json.is_object() ? text_or_dump(json.value("format", Json())) : "";
  require(format == kFormat, what,
          "it is not a measurement in the format of this dlflow ('" + format + "')");
  remove_nulls(json);
  try {
    auto measurement = from_fields<Measurement>(json);
    check_measurement(measurement, what);
    for (MeasuredPoint& point : measurement.points) fill_in(point, !measurement.layers.empty());
    return measurement;
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, what + ": " + reason_of(error) + "; measure the step again");
  }
}

std::vector<std::filesystem::path> measurement_files(const std::filesystem::path& cache,
                                                     const std::string& step) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(cache / "measurements", none)) {
    const std::string name = entry.path().filename().string();
    const bool is_of_step = name.starts_with(step + "-") && name.ends_with(".json") &&
                            name.find('-', step.size() + 1) == name.npos;
    if (is_of_step) found.emplace_back(entry.last_write_time(none), entry.path());
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::filesystem::path> files;
  for (auto& [time, path] : found) files.push_back(std::move(path));
  return files;
}

}  // namespace dlflow::planner
