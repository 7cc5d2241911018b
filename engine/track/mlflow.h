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

/// Writes runs to MLflow: a dlflow run becomes an MLflow run, with its jobs as nested runs.
namespace dlflow {

/// A run in MLflow's terms.
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

/// MLflow's storage. Only one process writes at a time: `track()` holds a lock. Throws Error.
class MlflowStore {
 public:
  virtual ~MlflowStore() = default;

  /// Selects the experiment for the following calls, and creates it if it does not exist.
  virtual void use_experiment(const std::string& name) = 0;

  /// Creates the run and returns its id in the store.
  virtual std::string create(const MlflowRun& run) = 0;

  /// Adds the run's parameters and tags. Existing ones are harmless.
  virtual void describe(const std::string& id, const MlflowRun& run) = 0;

  /// Updates the run's status and end.
  virtual void update(const std::string& id, const MlflowRun& run) = 0;

  /// Adds values. Existing ones are harmless.
  virtual void log(const std::string& id, std::span<const MlflowMetric> metrics) = 0;
};

/// A server's REST interface, for `track: {mlflow: ADDRESS}`.
/// \param patience  the time for all calls together; after it they throw Error{Unavailable}.
std::unique_ptr<MlflowStore> open_mlflow(const std::string& address,
                                         std::chrono::milliseconds patience);

/// Makes `name` valid as MLflow's name of a metric or a parameter: at most 250 letters, digits and
/// `_-. :/`, no part between slashes empty, "." or "..". Other characters become "_".
std::string mlflow_name(std::string_view name);

}  // namespace dlflow
