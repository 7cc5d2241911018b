#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

/// Runs and their jobs in MLflow: a dlflow run is a run of MLflow, its jobs are runs nested in it.
namespace dlflow {

/// A run as MLflow knows it.
struct MlflowRun {
  std::string id;  ///< 32 hexadecimal digits, the same each time
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
/// Implementations: a SQLite file, MLflow's REST interface.
class MlflowStore {
 public:
  virtual ~MlflowStore() = default;

  /// What follows belongs to this experiment, which is made if it is not there.
  virtual void use_experiment(const std::string& name) = 0;

  /// Makes the run, or brings its status, end, parameters and tags up to date; the id by which the
  /// store knows it. `known`: what this returned earlier, or nothing.
  virtual std::string put(const MlflowRun& run, const std::string& known) = 0;

  /// Adds values; one that is there already does no harm.
  virtual void log(const std::string& id, std::span<const MlflowMetric> metrics) = 0;
};

/// For `track: {mlflow: ADDRESS}`. A SQLite file must be there, made by MLflow itself: its tables
/// belong to MLflow's version, and the error says how to make it.
std::unique_ptr<MlflowStore> open_mlflow(const std::string& address);

std::unique_ptr<MlflowStore> open_mlflow_sqlite(const std::filesystem::path& file);
std::unique_ptr<MlflowStore> open_mlflow_rest(const std::string& address);

}  // namespace dlflow
