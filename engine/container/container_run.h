#pragma once

#include <filesystem>

/// Outside of a container: what a launcher starts as a rank.
namespace dlflow {

/// `dlflow container-run FILE`, where FILE is a container.json. Makes sure that the image is
/// there, starts the container and stays beside it: signals to this process reach the program
/// inside, and if this process dies, so does the program. Returns the program's exit status as the
/// program's own side has recorded it; 125, with a line on standard error, if there was none.
int container_run(const std::filesystem::path& file);

}  // namespace dlflow
