#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/report/observer.h"
#include "engine/slurm/tools.h"
#include "engine/store/store.h"

/// A run as a chain of dependent SLURM jobs. It is submitted as a whole; then nothing of ours runs
/// until SLURM starts a job (P1), and whoever looks later finds out from the record and from SLURM
/// how far it is.
namespace dlflow {

struct ChainServices {
  Store& store;
  SlurmTools& tools;
  Observer& observer;
  const Clock& clock;
};

/// One sbatch that was accepted.
struct SubmittedBatch {
  uint32_t step = 0;
  std::string id;   ///< SLURM's; of the array, if it is one
  size_t jobs = 1;  ///< its tasks
  Resources resources;
};

struct ChainResult {
  std::vector<SubmittedBatch> submitted;
  std::vector<std::string> adopted;  ///< jobs that an earlier dlflow had submitted without knowing
  std::vector<std::string> repointed;  ///< jobs that waited for one that failed: "select 4412"
  size_t kept = 0;                     ///< jobs that were done before
};

/// Which jobs that ended badly are submitted again.
struct Again {
  bool failed = false;  ///< also what failed or timed out; else what was cancelled or lost
  std::vector<std::string>
      names;  ///< only these steps or jobs, and what waits for them; empty: all
};

/// Checks the plan against the limits of profile and cluster, freezes it (see create_run_directory)
/// and adds it to the store. Nothing is submitted yet.
void create_chain(Plan& plan, const ChainServices& services,
                  const std::filesystem::path& program = "/proc/self/exe");

/// Brings SLURM to where it has every job of the run that can still run, each attempt once (P2):
/// what an earlier call left in doubt is looked up by name first, and adopted or submitted; jobs
/// that wait for one that is submitted anew are pointed to the new one (P4). Holds RunLock. Throws
/// Error: Unavailable if SLURM does not answer or it stays unclear whether it has a job,
/// InvalidInput if it refuses one; both say how many jobs it has and how to go on. NotFound and
/// InvalidInput for names, as resubmit_run.
ChainResult submit_chain(const std::filesystem::path& run_directory, const Again& again,
                         const ChainServices& services);

}  // namespace dlflow
