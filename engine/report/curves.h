#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/store/run_status.h"

/// The numbers that programs reported while they ran, read from metrics.jsonl as curves.
namespace dlflow {

struct CurvePoint {
  double step = 0;         ///< the line's number if the line has no step
  double epoch = 0;        ///< with the completed fraction of the present epoch, if known
  std::optional<Time> at;  ///< if the line has a time
  double value = 0;
  size_t line = 0;  ///< among all lines of its job, from 1
  bool operator==(const CurvePoint&) const = default;
};

/// One number over a job's life.
struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
  std::vector<size_t> breaks;  ///< indices of points at which the curve restarts from an earlier
                               ///< step
};

/// The training time, summed over the completed epochs.
struct TrainingTime {
  double training_s = 0;
  double data_wait_s = 0;
  std::optional<double> communication_wait_s;  ///< nothing: not measured
};

struct Reported {
  std::vector<Curve> curves;  ///< in the order of their first appearance
  std::optional<TrainingTime> training;
};

/// Reads the lines of one metrics.jsonl. The loss in a line that ends an epoch of `uses: train` is
/// called validation_loss if there is a validation set. Otherwise it is the mean of the other lines
/// and is left out. Lines that are not objects and values that are not finite numbers are skipped.
Reported read_reported(std::string_view lines);

/// Reads all attempts of a job in order. Missing files are skipped; only the first 64 MiB of a file
/// are read.
Reported read_reported_job(const std::filesystem::path& job_directory);

/// Keeps at most `max_points` points that preserve the curve's shape: the first, the last, and from
/// each part between them the point that spans the largest triangle with its neighbours. Points at
/// breaks stay.
/// Source: Steinarsson, Downsampling Time Series for Visual Representation, 2013.
Curve thinned(const Curve& curve, size_t max_points);

/// Job name -> its last metrics line; the keys are in docs/contributor/reference.md.
using ProgressByJob = std::map<std::string, Json>;

/// The last complete line of `file` as an object; nothing if no such line exists.
std::optional<Json> last_metrics(const std::filesystem::path& file);

/// The progress of each running job of `status`.
ProgressByJob read_progress(const RunStatus& status);

}  // namespace dlflow
