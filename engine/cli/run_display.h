#pragma once

#include <memory>

#include "engine/cli/session.h"
#include "engine/report/observer.h"

namespace dlflow {

/// What `run` and `resubmit` show while they work: on a terminal a live table, elsewhere a line per
/// change; with --json nothing on standard output but the last line; with --quiet only the end.
std::unique_ptr<Observer> make_run_display(const Session& session);

/// The last line of `run --json`.
void print_run_json(const std::string& run, RunState state);

}  // namespace dlflow
