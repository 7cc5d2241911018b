#pragma once

#include <vector>

#include "engine/model/diagnostic.h"
#include "engine/model/workflow.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"
#include "engine/share/bundle.h"

/// The files of a workflow that go into its bundle.
namespace dlflow {

struct PackOptions {
  bool with_data = false;    ///< the local files that its `stage` steps read
  bool with_images = false;  ///< the archives of its images
};

/// The workflow's text, the files that a run would freeze (for a run: has frozen), the digests of
/// its images, and the files that `options` request. Throws Error{InvalidInput} with the place in
/// the workflow of anything that cannot travel: a path on this machine, data without a declared
/// hash, a root file system as a folder.
Bundle collect(const Plan& plan, const PackOptions& options, FileHashes& hashes);

struct StageSource {
  const Step* step;  ///< of the workflow
  Json source;       ///< as in `with.sources`, evaluated as far as possible before a run
};

/// All sources in the order of the workflow, each one once.
std::vector<StageSource> stage_sources(const Workflow& workflow);

/// The places in the workflow's text with a path on this machine that is not in the bundle, each
/// with advice. Folders of programs and devices do not count.
Diagnostics machine_paths(const Bundle& bundle);

}  // namespace dlflow
