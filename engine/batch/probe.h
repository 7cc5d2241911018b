#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/batch/batch.h"
#include "engine/batch/batch_job.h"
#include "engine/model/profile.h"

/// `dlflow profile check`: a small job that tests a profile on a compute node.
namespace dlflow {

/// One test.
struct Finding {
  enum class Kind { Works, Fails, Unknown };
  Kind kind = Kind::Works;
  std::string text;    ///< "the folder of runs, /scratch/ann/runs, is there and writable"
  std::string advice;  ///< what to do, unless it works
  bool operator==(const Finding&) const = default;
};

/// `environment:` of steps, to be loaded on the node.
struct ProbedEnvironment {
  std::string steps;           ///< "train, evaluate": those that have it
  Json tools;                  ///< Step::tools
  std::filesystem::path base;  ///< the base of its relative paths
};

/// The common place of the two sides of a probe: a new folder in the profile's folder of runs.
struct Probe {
  std::filesystem::path folder;  ///< absolute
  std::string token;             ///< the content of its file `token`, written by the login node
  int ranks = 2;                 ///< for the test of the launcher
  std::vector<ProbedEnvironment> environments = {};
  std::string self_query = {};       ///< BatchSystem::self_query()
  Time made{};                       ///< the login node's time, for the node's clock
  std::string release_runtime = {};  ///< that runs programs in the release's image; may be empty

  std::filesystem::path result() const { return folder / "result"; }
};

/// Makes the folder with the job's input: the token, the profile's environment and setup lines,
/// those that load the environments of steps, a copy of `program` and of the programs of steps
/// beside it.
void prepare_probe(const Probe& probe, const Profile& profile,
                   const std::filesystem::path& program = "/proc/self/exe");

/// Exit status of a probe's job whose node does not see the folder.
inline constexpr int kFolderNotShared = 3;

/// The job: one shell command that reads nothing from a shared folder, so that it runs (and can
/// report by its exit status) even if none is shared.
Batch probe_batch(const Probe& probe, const Profile& profile);

/// The findings in a result; `text` is absent if the job left none. \param now  the time of
/// reading.
std::vector<Finding> read_probe(const std::optional<std::string>& text, const Probe& probe,
                                const Profile& profile, const BatchJob& job, Time now);

}  // namespace dlflow
