#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/container/container_job.h"

/// Outside of a container: what a launcher starts as a rank.
namespace dlflow {

/// `dlflow container-run FILE`, where FILE is a container.json. Makes sure that the image is
/// there, starts the container and stays beside it: signals to this process reach the program
/// inside, and if this process dies, so does the program. Returns the program's exit status as the
/// program's own side has recorded it; 125, with a line on standard error, if there was none.
int container_run(const std::filesystem::path& file);

/// The environment inside: what the image says, then who the caller is, what `passed` tells a rank
/// about itself, and on top what the step declares.
std::map<std::string, std::string> container_environment(
    const ContainerJob& job, const std::map<std::string, std::string>& image,
    const std::vector<std::string>& callers);

}  // namespace dlflow
