#pragma once

/// The step kind `checkpoint`: verifies checkpoints, selects one, prunes the rest, exports.
namespace dlflow::steps {

/// Runs as `dlflow step checkpoint`, on the DLFLOW_* environment of
/// docs/contributor/reference.md. Returns the exit status: 0, or 1 after "error: ..." on
/// standard error.
int checkpoint_main();

}  // namespace dlflow::steps
