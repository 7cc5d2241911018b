#pragma once

/// The step kind `stage-out`: copies results of a run to another place.
namespace dlflow::steps {

/// Runs as `dlflow step stage-out`, on the DLFLOW_* environment of docs/contributor/reference.md.
/// Returns the exit status: 0; 1 after "error: ..." on standard error; 75 after SIGTERM or SIGUSR1;
/// the next pass then sends the missing files.
int stage_out_main();

}  // namespace dlflow::steps
