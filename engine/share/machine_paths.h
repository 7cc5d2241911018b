#pragma once

#include "engine/model/diagnostic.h"
#include "engine/share/bundle.h"

/// The paths in a workflow that exist on this machine only.
namespace dlflow {

/// The places in the workflow's text with a path that is on this machine, and that the bundle does
/// not bring along: each with what to do about it. The folders of programs and devices do not
/// count.
Diagnostics machine_paths(const Bundle& bundle);

}  // namespace dlflow
