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

/// The workflow's text, the files that a run would freeze (of a run: those that it froze), the
/// digests of its images, and what `options` ask for. Throws Error{InvalidInput} naming the place
/// in the workflow of what cannot travel: a path that only this machine has, data without a
/// declared hash, a root file system as a folder.
Bundle collect(const Plan& plan, const PackOptions& options, FileHashes& hashes);

struct StageSource {
  const Step* step;  ///< of the workflow
  Json source;       ///< as `with.sources` has it, all that is known before a run evaluated
};

/// Each source once, in the order of the workflow.
std::vector<StageSource> stage_sources(const Workflow& workflow);

/// The places in the workflow's text with a path that is on this machine, and that the bundle does
/// not bring along: each with what to do about it. The folders of programs and devices do not
/// count.
Diagnostics machine_paths(const Bundle& bundle);

}  // namespace dlflow
