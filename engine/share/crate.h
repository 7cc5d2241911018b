#pragma once

#include "base/json.h"
#include "engine/share/bundle.h"

/// ro-crate-metadata.json: a bundle in the words that archives and registries of research data
/// read.
namespace dlflow {

/// A Workflow RO-Crate 1.0; of a run a Workflow Run Crate 0.5. `manifest` has all other files.
/// Source: https://w3id.org/ro/crate/1.1, https://w3id.org/workflowhub/workflow-ro-crate/1.0,
/// https://w3id.org/ro/wfrun/workflow/0.5
Json crate_metadata(const Bundle& bundle, const Manifest& manifest);

}  // namespace dlflow
