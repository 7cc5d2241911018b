#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"
#include "engine/share/bundle.h"
#include "engine/store/run_status.h"

/// The parts of a run that go into a bundle.
namespace dlflow {

/// A run as it is recorded.
struct RecordedRun {
  const Plan& plan;
  const RunStatus& status;
  const std::map<std::string, std::vector<JobEvent>>& events;  ///< by job
  FileHashes& hashes;
};

/// Adds run/run.json, and of each job that succeeded what it put out, its checkpoints and its
/// metrics over time; of `stage` steps nothing, which --with-data packs, unless they are named.
/// Nodes become node-1, node-2, …, paths relative; what programs printed, process and job ids stay
/// behind. \param steps  only what these left; empty: all. Throws Error{NotFound} naming one that
/// there is not.
///
/// A result that is in the bundle as it was published has the hashes of its trees, its links and
/// its empty folders in run.json.
///
/// Returns, for people, a line for each file that is left out because it names a folder, a host or
/// the user, and for each result that is not as it was published.
std::vector<std::string> add_run(Bundle& bundle, const RecordedRun& run,
                                 const std::set<std::string>& steps = {});

}  // namespace dlflow
