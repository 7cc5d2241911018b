#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "engine/store/database.h"
#include "engine/track/mlflow.h"
#include "engine/track/times.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// For a column of numbers, which SQLite makes one of it again; all digits.
std::string print_value(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

/// MLflow writes no infinity and no NaN into its table, but these.
struct Stored {
  double value;
  bool is_nan;
};
Stored stored(double value) {
  if (std::isnan(value)) return {0, true};
  constexpr double kLargest = 1.7976931348623157e308;
  return {std::clamp(value, -kLargest, kLargest), false};
}

[[noreturn]] void fail(const fs::path& file, const std::string& cause) {
  throw Error(Errc::InvalidInput,
              "the MLflow store " + file.string() + " cannot be used: " + cause);
}

std::string how_to_make(const fs::path& file) {
  return "`MLFLOW_TRACKING_URI=sqlite:///" + file.string() +
         " mlflow experiments search` makes one";
}

class SqliteStore : public MlflowStore {
 public:
  SqliteStore(const fs::path& file, std::chrono::milliseconds patience)
      : file_(file), database_(opened(file, patience)) {
    require_columns("experiments",
                    {"experiment_id", "name", "artifact_location", "lifecycle_stage"});
    require_columns("runs", {"run_uuid", "name", "source_type", "status", "start_time", "end_time",
                             "lifecycle_stage", "artifact_uri", "experiment_id", "user_id"});
    require_columns("metrics", {"key", "value", "timestamp", "run_uuid", "step", "is_nan"});
    require_columns("latest_metrics", {"key", "value", "timestamp", "step", "is_nan", "run_uuid"});
    require_columns("params", {"key", "value", "run_uuid"});
    require_columns("tags", {"key", "value", "run_uuid"});
  }

  void use_experiment(const std::string& name) override {
    with_database([&] {
      Transaction transaction(database_);
      database_.execute(
          "INSERT OR IGNORE INTO experiments(name, artifact_location, lifecycle_stage) VALUES (?, "
          "?, 'active')",
          name, artifacts() + "/" + name);
      const Rows rows =
          database_.query("SELECT experiment_id FROM experiments WHERE name = ?", name);
      if (!rows->next()) fail(file_, "it takes no experiment");
      experiment_ = rows->integer(0);
      transaction.commit();
    });
  }

  std::string create(const MlflowRun& run) override {
    update(run.id, run);
    return run.id;
  }

  void describe(const std::string& id, const MlflowRun& run) override {
    with_database([&] {
      Transaction transaction(database_);
      for (const auto& [key, value] : run.params) {
        database_.execute("INSERT OR REPLACE INTO params(key, value, run_uuid) VALUES (?, ?, ?)",
                          key, value, id);
      }
      for (const auto& [key, value] : run.tags) {
        database_.execute("INSERT OR REPLACE INTO tags(key, value, run_uuid) VALUES (?, ?, ?)", key,
                          value, id);
      }
      transaction.commit();
    });
  }

  void update(const std::string& id, const MlflowRun& run) override {
    with_database([&] {
      Transaction transaction(database_);
      database_.execute(
          "INSERT INTO runs(run_uuid, name, source_type, user_id, status, start_time, end_time, "
          "lifecycle_stage, artifact_uri, experiment_id) VALUES (?, ?, 'PROJECT', '', ?, ?, ?, "
          "'active', ?, ?) "
          "ON CONFLICT(run_uuid) DO UPDATE SET status = excluded.status, end_time = "
          "excluded.end_time",
          id, run.name, run.status, unix_milliseconds(run.started),
          run.ended ? std::optional(unix_milliseconds(*run.ended)) : std::nullopt,
          artifacts() + "/" + id, experiment_);
      transaction.commit();
    });
  }

  void log(const std::string& id, std::span<const MlflowMetric> metrics) override {
    with_database([&] {
      Transaction transaction(database_);
      for (const MlflowMetric& metric : metrics) {
        const Stored value = stored(metric.value);
        database_.execute(
            "INSERT OR IGNORE INTO metrics(key, value, timestamp, run_uuid, step, is_nan) VALUES "
            "(?, ?, ?, ?, ?, ?)",
            metric.key, print_value(value.value), unix_milliseconds(metric.at), id, metric.step,
            int(value.is_nan));
        database_.execute(
            "INSERT INTO latest_metrics(key, value, timestamp, step, is_nan, run_uuid) VALUES (?, "
            "?, ?, ?, ?, ?) "
            "ON CONFLICT(key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = "
            "excluded.timestamp, "
            "step = excluded.step, is_nan = excluded.is_nan WHERE (excluded.step, "
            "excluded.timestamp) >= "
            "(latest_metrics.step, latest_metrics.timestamp)",
            metric.key, print_value(value.value), unix_milliseconds(metric.at), metric.step,
            int(value.is_nan), id);
      }
      transaction.commit();
    });
  }

 private:
  static Database opened(const fs::path& file, std::chrono::milliseconds patience) {
    std::error_code none;
    if (!fs::exists(file, none)) fail(file, "it is not there yet; " + how_to_make(file));
    return translated(file, [&] { return Database(file, patience, FileOf::OtherProgram); });
  }

  /// The words of DatabaseError are about dlflow's own file.
  template <typename Work>
  static auto translated(const fs::path& file, const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (const DatabaseError& error) {
      const std::string cause = " (" + error.cause() + ")";
      if (error.code() == Errc::Corrupt) {
        fail(file, "it is not a database that MLflow made" + cause + "; " + how_to_make(file));
      }
      if (error.code() == Errc::InvalidInput) {
        fail(file, "it cannot be written" + cause +
                       "; check its permissions, those of its folder, and the free space");
      }
      throw Error(Errc::Unavailable, "the MLflow store " + file.string() + " did not take the run" +
                                         cause + "; `dlflow sync RUN` tries again");
    }
  }

  template <typename Work>
  void with_database(const Work& work) {
    translated(file_, work);
  }

  void require_columns(const std::string& table, const std::set<std::string>& wanted) {
    std::set<std::string> missing = wanted;
    with_database([&] {
      const Rows rows = database_.query("SELECT name FROM pragma_table_info(?)", table);
      while (rows->next()) missing.erase(rows->text(0));
    });
    if (missing.empty()) return;
    fail(file_, "its table " + table + " has no column " + *missing.begin() +
                    ", so it is no store of an MLflow that dlflow knows (2.0 to 3.17); " +
                    how_to_make(file_));
  }

  /// Where MLflow looks for files of runs; there are none.
  std::string artifacts() const {
    return (fs::absolute(file_).parent_path() / "mlartifacts").string();
  }

  fs::path file_;
  Database database_;
  int64_t experiment_ = 0;
};

}  // namespace

std::unique_ptr<MlflowStore> open_mlflow_sqlite(const fs::path& file,
                                                std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(10);
  return std::make_unique<SqliteStore>(file, std::min(patience, kLongest));
}

}  // namespace dlflow
