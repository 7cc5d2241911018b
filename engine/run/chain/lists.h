#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/run/chain/chain_run.h"

/// Fan-out known at run time, in a batch system; see engine/plan/extension.h.
///
/// Jobs that wait for a list are not submitted with the rest of the chain. Once the list exists,
/// the process that handles it (`dlflow run --resume`, called by a person or by the job that left
/// the list) writes the extension, and then submits the new jobs like any missing ones.
namespace dlflow {

/// Whether a step takes the values of an axis from another.
bool fans_out(const Plan& plan);

struct FoundLists {
  bool any = false;                                 ///< the run has new jobs
  std::map<std::string, std::string> refused = {};  ///< step -> why its list makes no jobs
};

/// Lays out the lists that steps have left since, and loads `run` again with the new jobs. The
/// caller holds RunLock. Throws Error{InvalidInput} if a list replaces an earlier one with which
/// jobs wait or run.
/// \param from_job  the caller is a job, not a person: cancelled jobs stay so.
FoundLists lay_out_lists(std::optional<ChainRun>& run, bool from_job);

/// Blocks the jobs of refused lists.
void block_refused(ChainRun& run, const FoundLists& found);

/// Reuses known results for elements that wait for nothing any more, and for their descendants.
void reuse_listed(ChainRun& run);

}  // namespace dlflow
