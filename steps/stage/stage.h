#pragma once

/// The step kind `stage`: brings files to a run, through a cache shared by runs.
namespace dlflow::steps {

/// Runs as `dlflow step stage`, on the DLFLOW_* environment of docs/contributor/reference.md.
/// Returns the exit status: 0; 1 after "error: ..." on standard error; 75 after SIGTERM or SIGUSR1,
/// with partial downloads kept for the next pass.
int stage_main();

}  // namespace dlflow::steps
