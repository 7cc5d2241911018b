#pragma once

#include <filesystem>

/// The programs around a rank in a container: container-run, which a launcher starts outside, and
/// container-exec inside, between the runtime and the step's program.
namespace dlflow {

/// `dlflow container-run FILE`, where FILE is a container.json. Provides the image, starts the
/// container and stays beside it: signals to this process reach the program inside, and if this
/// process dies, the program dies. Returns the program's exit status, as recorded inside; 125, with
/// a line on standard error, if there is none.
int container_run(const std::filesystem::path& file);

/// `dlflow container-exec FOLDER`. Runs the program of FOLDER/request.json with exactly the
/// environment given there, passes on the signals that come through FOLDER/control, and records its
/// end in FOLDER/status.RANK, since runtimes may lose exit statuses. If the process outside is
/// gone, it kills the program. Returns the program's exit status; 127 if the image has no such
/// program.
int container_exec(const std::filesystem::path& folder);

}  // namespace dlflow
