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

/// The numbers that programs reported while they ran: metrics.jsonl as curves.
namespace dlflow {

struct CurvePoint {
  double step = 0;         ///< or the number of the line, where it tells none
  double epoch = 0;        ///< with the part of it that is done, where that is known
  std::optional<Time> at;  ///< where the line tells
  double value = 0;
  size_t line = 0;  ///< of all lines of its job, from 1
  bool operator==(const CurvePoint&) const = default;
};

/// One number over a job's life.
struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
  std::vector<size_t> breaks;  ///< indices of points where it begins anew: from an earlier step
};

/// The time of training, added up over the epochs that ended.
struct TrainingTime {
  double training_s = 0;
  double data_wait_s = 0;
  std::optional<double> communication_wait_s;  ///< nothing: not measured
};

struct Reported {
  std::vector<Curve> curves;  ///< in the order of their first appearance
  std::optional<TrainingTime> training;
};

/// The lines of one metrics.jsonl. Of lines that end an epoch of `uses: train` the loss is called
/// validation_loss where there is a validation set, and left out otherwise: it is the mean of the
/// others. Lines that are no objects, and values that are no finite numbers, are passed over.
Reported read_reported(std::string_view lines);

/// The same of all attempts of a job, one after the other; nothing of a file that is not there. Of
/// a file only the first 64 MiB are read.
Reported read_reported_job(const std::filesystem::path& job_directory);

/// At most `max_points` of the curve's points, those that keep its shape: the first, the last, and
/// of each part between them the one that spans the largest triangle with its neighbours. Points at
/// breaks stay.
/// Source: Steinarsson, Downsampling Time Series for Visual Representation, 2013.
Curve thinned(const Curve& curve, size_t max_points);

/// Job name -> its last metrics line; the keys are in docs/contributor/reference.md.
using ProgressByJob = std::map<std::string, Json>;

/// The last whole line of `file` as an object; nothing if there is none.
std::optional<Json> last_metrics(const std::filesystem::path& file);

/// The progress of each running job of `status`.
ProgressByJob read_progress(const RunStatus& status);

}  // namespace dlflow
