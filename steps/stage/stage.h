#pragma once

/// The step kind `stage`: brings files to a run, through a cache that runs share.
namespace dlflow::steps {

/// Runs as `dlflow step stage`, on the DLFLOW_* environment of docs/contributor/reference.md.
/// Returns the exit status: 0; 1 after "error: ..." on standard error; 75 if SIGTERM or SIGUSR1
/// asked it to stop, and then a partial download is kept for the next pass.
int stage_main();

}  // namespace dlflow::steps
