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

/// `dlflow profile check`: a small job that tries on a compute node what a profile promises.
namespace dlflow {

/// One thing that was tried.
struct Finding {
  enum class Kind { Works, Fails, Unknown };
  Kind kind = Kind::Works;
  std::string text;    ///< "the folder of runs, /scratch/ann/runs, is there and writable"
  std::string advice;  ///< what to do, unless it works
  bool operator==(const Finding&) const = default;
};

/// `environment:` of steps, which is to load on the node.
struct ProbedEnvironment {
  std::string steps;           ///< "train, evaluate": those that say so
  Json tools;                  ///< Step::tools
  std::filesystem::path base;  ///< what its paths are relative to
};

/// Where the two sides of a probe meet: a new folder in the profile's folder of runs.
struct Probe {
  std::filesystem::path folder;  ///< absolute
  std::string token;             ///< what is in its file `token`, written by the login node
  int ranks = 2;                 ///< that the launcher is tried with
  std::vector<ProbedEnvironment> environments = {};
  std::string self_query = {};       ///< BatchSystem::self_query()
  Time made{};                       ///< the login node's time, for the node's clock
  std::string release_runtime = {};  ///< that runs programs in the release's image; may be empty

  std::filesystem::path result() const { return folder / "result"; }
};

/// Makes the folder with what the job looks at: the token, the profile's environment and setup
/// lines, those that load the environments of steps, a copy of `program` and of the programs of
/// steps beside it.
void prepare_probe(const Probe& probe, const Profile& profile,
                   const std::filesystem::path& program = "/proc/self/exe");

/// Exit status of a probe's job whose node does not see the folder.
inline constexpr int kFolderNotShared = 3;

/// The job: one shell command, nothing of which is read from a shared folder, so that it runs (and
/// can say so by its exit status) where none is shared.
Batch probe_batch(const Probe& probe, const Profile& profile);

/// What `result` says; `text` is absent if the job left none. \param now  when it was read.
std::vector<Finding> read_probe(const std::optional<std::string>& text, const Probe& probe,
                                const Profile& profile, const BatchJob& job, Time now);

}  // namespace dlflow
