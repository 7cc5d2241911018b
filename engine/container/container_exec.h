#pragma once

#include <filesystem>

/// Inside of a container: what stands between the runtime and the step's program.
namespace dlflow {

/// `dlflow container-exec FOLDER`. Runs the program that FOLDER/request.json asks for, with the
/// environment that it gives and no other, passes the signals on that come through FOLDER/control,
/// and leaves how it ended in FOLDER/status.RANK, whatever the runtime makes of exit statuses. If
/// the process outside is gone, so is the program. Returns the program's exit status; 127 if the
/// image has no such program.
int container_exec(const std::filesystem::path& folder);

}  // namespace dlflow
