#pragma once

#include <filesystem>

/// The program that a launcher starts as a rank, outside of a container, and the one inside,
/// between the runtime and the step's program.
namespace dlflow {

/// `dlflow container-run FILE`, where FILE is a container.json. Makes sure that the image is
/// there, starts the container and stays beside it: signals to this process reach the program
/// inside, and if this process dies, so does the program. Returns the program's exit status as the
/// program's own side has recorded it; 125, with a line on standard error, if there was none.
int container_run(const std::filesystem::path& file);

/// `dlflow container-exec FOLDER`. Runs the program that FOLDER/request.json asks for, with the
/// environment that it gives and no other, passes the signals on that come through FOLDER/control,
/// and leaves how it ended in FOLDER/status.RANK, whatever the runtime makes of exit statuses. If
/// the process outside is gone, so is the program. Returns the program's exit status; 127 if the
/// image has no such program.
int container_exec(const std::filesystem::path& folder);

}  // namespace dlflow
