#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "engine/container/container_job.h"
#include "engine/container/image_store.h"

/// `images.NAME.build`: a command that changes a copy of the image once, before its first use. It
/// compiles what must fit the cluster, as its MPI.
namespace dlflow {

/// The identity of the image that `build`, as the workflow has it, makes of the one with digest
/// `base`. It is that of the recipe: what the recipe makes is not known before it ran.
std::string built_digest(const std::string& base, const Json& build);

/// The image of `job.build`, made of `base` unless the store has it. Of many callers at once one
/// builds, in `directory` of the node, which a container sees. `run` executes a job in the root
/// file system of an image that it may write to, and returns the exit status. Throws
/// Error{InvalidInput} if the command fails; then the store is as before.
StoredImage built_image(
    const ContainerJob& job, ImageStore& store, const StoredImage& base,
    const std::filesystem::path& directory,
    const std::function<int(const ContainerJob& build, const StoredImage& image)>& run);

}  // namespace dlflow
