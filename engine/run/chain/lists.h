#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/run/chain/chain_run.h"

/// Fan-out known at run time, in a batch system; see engine/plan/extension.h.
///
/// What waits for a list is not submitted with the rest of the chain. Who looks after the list is
/// there (`dlflow run --resume`: a person, or the job that left it) writes the extension, and then
/// submits what it makes as any job that is missing.
namespace dlflow {

/// Whether a step takes the values of an axis from another.
bool fans_out(const Plan& plan);

struct FoundLists {
  bool any = false;                                 ///< the run has jobs that it had not before
  std::map<std::string, std::string> refused = {};  ///< step -> why its list makes no jobs
};

/// Lays out what steps have listed since; `run` is loaded again with that. For whoever holds
/// RunLock. Throws Error{InvalidInput} if a list replaces an earlier one that jobs wait or run
/// with.
/// \param from_job  a job asks, and nobody else: what people have cancelled stays so.
FoundLists lay_out_lists(std::optional<ChainRun>& run, bool from_job);

/// Blocks what a refused list would make.
void block_refused(ChainRun& run, const FoundLists& found);

/// Takes the known results of elements that wait for nothing any more, and of what needs these.
void reuse_listed(ChainRun& run);

}  // namespace dlflow
