#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

/// Runs and their jobs in MLflow: a dlflow run is a run of MLflow, its jobs are runs nested in it.
namespace dlflow {

/// A run as MLflow knows it.
struct MlflowRun {
  std::string name;
  std::string status;  ///< RUNNING, FINISHED, FAILED, KILLED, SCHEDULED
  Time started{};
  std::optional<Time> ended;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::pair<std::string, std::string>> tags;
};

/// One value of a metric.
struct MlflowMetric {
  std::string key;
  double value = 0;
  Time at{};
  int64_t step = 0;
};

/// Where MLflow keeps runs. One process writes at a time: `track()` holds a lock. Throws Error.
class MlflowStore {
 public:
  virtual ~MlflowStore() = default;

  /// What follows belongs to this experiment, which is made if it is not there.
  virtual void use_experiment(const std::string& name) = 0;

  /// Makes the run; the id by which the store knows it from now on.
  virtual std::string create(const MlflowRun& run) = 0;

  /// Adds its parameters and tags; those that are there already do no harm.
  virtual void describe(const std::string& id, const MlflowRun& run) = 0;

  /// Brings its status and its end up to date.
  virtual void update(const std::string& id, const MlflowRun& run) = 0;

  /// Adds values; one that is there already does no harm.
  virtual void log(const std::string& id, std::span<const MlflowMetric> metrics) = 0;
};

/// A server's REST interface, for `track: {mlflow: ADDRESS}`.
/// \param patience  all calls together throw Error{Unavailable} once this is over.
std::unique_ptr<MlflowStore> open_mlflow(const std::string& address,
                                         std::chrono::milliseconds patience);

/// `name` as MLflow takes it for a metric or a parameter: at most 250 letters, digits and
/// `_-. :/`, no part of it between slashes empty, "." or "..". All else becomes "_".
std::string mlflow_name(std::string_view name);

}  // namespace dlflow
