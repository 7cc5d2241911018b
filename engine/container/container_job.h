#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/container/image_source.h"
#include "engine/container/runtime.h"
#include "engine/ranks/rank_plan.h"

/// Messages from a supervisor to the processes that run a step's program in containers.
namespace dlflow {

/// The content of attempt-N/container.json: all input of `dlflow container-run`.
struct ContainerJob {
  std::string image;  ///< its name in the workflow, for messages
  std::string from;   ///< `images.NAME.from`, with an absolute path
  Digest digest;
  Json build;  ///< `images.NAME.build`, or null
  std::filesystem::path cache;
  uint64_t cache_budget_bytes = 0;  ///< 0: no limit

  std::string runtime;               ///< a name of runtime.h
  std::vector<std::string> command;  ///< the site's command for the program; empty: its name
  std::string mode;                  ///< udocker's
  std::vector<std::string> arguments;
  std::vector<std::string> launcher;  ///< for a runtime that starts the ranks itself
  std::string mpirun;  ///< the launcher outside, if it starts one container per rank; or empty
  int ranks = 1;       ///< number of ranks of one container-run

  std::vector<Bind> binds;
  std::filesystem::path directory;  ///< working directory; also holds the folders of ranks
  bool gpus = false;
  /// The commands to choose from: the first whose program is in the image runs.
  std::vector<std::vector<std::string>> commands;
  std::map<std::string, std::string> environment;  ///< declared; overrides inherited ones
  std::optional<RankPlan> rank_plan;   ///< for a command that gets the variables of its rank
  std::set<std::string> secrets;       ///< names of further variables
  std::filesystem::path secrets_file;  ///< their values, see secret_file.h
  std::filesystem::path log;           ///< receives the standard error of container-run; or empty
};

Json to_json(const ContainerJob& job);
/// Throws Error{Corrupt}.
ContainerJob container_job_from_json(const Json& json);

/// The content of FOLDER/request.json: all input of `dlflow container-exec FOLDER` inside.
struct ContainerRequest {
  std::string image;
  std::vector<std::vector<std::string>> commands;
  std::filesystem::path directory;
  std::map<std::string, std::string> environment;  ///< complete, unless:
  bool adds_ranks = false;  ///< adds variables that each rank inherits from its launcher, and:
  std::optional<RankPlan> rank_plan;
  int asks_by = 0;                ///< as in RankPlan; not used by a launcher outside
  int asked_by = 0;               ///< the same
  std::set<std::string> secrets;  ///< as in ContainerJob; read inside, hidden from runtimes
  std::filesystem::path secrets_file;
};

Json to_json(const ContainerRequest& request);
/// Throws Error{Corrupt}.
ContainerRequest container_request_from_json(const Json& json);

/// The folder through which the two sides of a container communicate; both see it at this path.
struct Rendezvous {
  std::filesystem::path folder;

  std::filesystem::path request() const { return folder / "request.json"; }
  /// A named pipe: the signals for the program, a byte each, after one byte of greeting. It closes
  /// with the process outside, and the program inside is then killed. A runtime that starts the
  /// ranks itself, perhaps on other nodes, has no pipe: it passes on signals itself.
  std::filesystem::path control() const { return folder / "control"; }
  /// The end of the program of one rank: its exit status, 128 + n for signal n.
  std::filesystem::path status(const std::string& rank) const {
    return folder / ("status." + rank);
  }
};

/// Whether a caller's variable belongs in a container: it gives a rank its number or its devices.
bool is_passed_on(std::string_view name);

}  // namespace dlflow
