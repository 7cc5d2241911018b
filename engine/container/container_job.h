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
  std::string digest;
  Json build;  ///< `images.NAME.build`, or null
  std::filesystem::path cache;
  uint64_t cache_budget_bytes = 0;  ///< 0: no limit

  std::string runtime;               ///< a name of runtime.h
  std::vector<std::string> command;  ///< the site's command for its program; empty: its name
  std::string mode;                  ///< udocker's
  std::vector<std::string> arguments;
  std::vector<std::string> launcher;  ///< of a runtime that starts the ranks itself
  std::string mpirun;  ///< the launcher that starts the ranks outside, one container each; or empty
  int ranks = 1;       ///< number of ranks of one container-run

  std::vector<Bind> binds;
  std::filesystem::path directory;  ///< working directory; its folders of ranks are made there too
  bool gpus = false;
  /// The commands to choose from: the first whose program is in the image runs.
  std::vector<std::vector<std::string>> commands;
  std::map<std::string, std::string> environment;  ///< declared; overrides inherited ones
  std::optional<RankPlan> rank_plan;   ///< of a command that gets the variables of its rank
  std::set<std::string> secrets;       ///< names of more, and the file (secret_file.h)
  std::filesystem::path secrets_file;  ///< with their values
  std::filesystem::path log;           ///< gets the standard error of container-run; or empty
};

Json to_json(const ContainerJob& job);
/// Throws Error{Corrupt}.
ContainerJob container_job_from_json(const Json& json);

/// The content of FOLDER/request.json: all input of `dlflow container-exec FOLDER` inside.
struct ContainerRequest {
  std::string image;
  std::vector<std::vector<std::string>> commands;
  std::filesystem::path directory;
  std::map<std::string, std::string> environment;  ///< all of it, unless:
  bool adds_ranks = false;  ///< variables that each rank inherits of its launcher come on top, and:
  std::optional<RankPlan> rank_plan;
  int asks_by = 0;                ///< as in RankPlan, which a launcher outside keeps for itself
  int asked_by = 0;               ///< the same
  std::set<std::string> secrets;  ///< as in ContainerJob: read inside, so that no runtime sees them
  std::filesystem::path secrets_file;
};

Json to_json(const ContainerRequest& request);
/// Throws Error{Corrupt}.
ContainerRequest container_request_from_json(const Json& json);

/// The folder in which the two sides of one container meet; both see it at this path.
struct Rendezvous {
  std::filesystem::path folder;

  std::filesystem::path request() const { return folder / "request.json"; }
  /// A named pipe: the signals for the program, a byte each, after one byte of greeting. It ends
  /// with the process outside, and then the program inside is killed. A runtime that starts the
  /// ranks itself, perhaps on other nodes, has no pipe: it passes signals on.
  std::filesystem::path control() const { return folder / "control"; }
  /// The end of the program of one rank: its exit status, 128 + n for signal n.
  std::filesystem::path status(const std::string& rank) const {
    return folder / ("status." + rank);
  }
};

/// Whether a variable of the caller belongs into a container: one that tells a rank its number or
/// its devices.
bool is_passed_on(std::string_view name);

}  // namespace dlflow
