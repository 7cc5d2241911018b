#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

/// A cluster profile: what a cluster is called and offers. cluster-profiles/local.yaml documents
/// every key.
namespace dlflow {

struct Launcher {
  std::string program = "mpirun";      ///< mpirun, srun or a path
  std::vector<std::string> arguments;  ///< before the number of ranks
  bool operator==(const Launcher&) const = default;
};

struct Profile {
  std::string name = "local";
  std::string file;                 ///< where it was read from; empty: built in
  std::string scheduler = "local";  ///< who starts jobs
  int cores = 0;                    ///< local: 0 means all that this process may use
  uint64_t memory_bytes = 0;        ///< local: 0 means all
  int gpus = 0;
  Launcher launcher;
  std::vector<std::string> setup;  ///< shell lines before each job
  std::map<std::string, std::string> environment;
  std::filesystem::path runs = "dlflow-runs";
  std::filesystem::path cache;      ///< empty: $XDG_CACHE_HOME/dlflow
  uint64_t cache_budget_bytes = 0;  ///< 0: no limit

  bool operator==(const Profile&) const = default;
};

/// Finds and reads the profile `name`: a path to a YAML file, or a name looked up in
/// ./cluster-profiles, ~/.config/dlflow/profiles ($XDG_CONFIG_HOME), and for "local" the built-in
/// one. Throws Error{NotFound} listing the names there are, or Error{InvalidInput} with all
/// diagnostics.
Profile load_profile(const std::string& name);

}  // namespace dlflow
