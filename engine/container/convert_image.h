#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/container/container_job.h"
#include "engine/container/image_store.h"
#include "engine/container/runtime.h"

/// Images in the forms that runtimes start from.
namespace dlflow {

/// The image of `job` in the form that `runtime` starts from, made from the unpacked one once for
/// the cluster (by the docker daemon: once per node). `command` is the command of the runtime.
/// Throws Error with the message of the tool that failed.
std::filesystem::path image_for(const ContainerRuntime& runtime, const ContainerJob& job,
                                const std::vector<std::string>& command, ImageStore& store,
                                const StoredImage& image);

}  // namespace dlflow
