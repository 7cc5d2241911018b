#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/plan/fingerprint.h"
#include "engine/share/bundle.h"
#include "engine/store/run_status.h"

/// The parts of a run that go into a bundle.
namespace dlflow {

/// Adds run/run.json, and the outputs, checkpoints and metrics over time of each succeeded job.
/// Skips `stage` steps, whose data --with-data packs, unless they are named. Nodes become node-1,
/// node-2, …, and paths relative; the output of programs, process ids and job ids are left out.
/// \param steps  adds only the files of these; empty: all. Throws Error{NotFound} naming an unknown
/// step.
///
/// If a result is in the bundle as it was published, run.json has the hashes of its trees, its
/// links and its empty folders.
///
/// Returns, for people, a line for each file that is left out because it names a folder, a host or
/// the user, and for each result that is not as it was published.
std::vector<std::string> add_run(Bundle& bundle, const ReportedRun& run, FileHashes& hashes,
                                 const std::set<std::string>& steps = {});

}  // namespace dlflow
