#pragma once

#include <functional>

#include "base/json.h"
#include "engine/container/container_job.h"
#include "engine/container/image_store.h"

/// `images.NAME.build`: a command that changes a copy of the image once, before its first use. It
/// compiles software that must fit the cluster, such as its MPI.
namespace dlflow {

/// The identity of the image that `build` makes from the one with digest `base`. It is derived from
/// the recipe, since the result is unknown before the build.
Digest built_digest(const Digest& base, const Json& build);

/// The image of `job.build`, built from `base` unless the store has it. Among concurrent callers
/// one builds, in `directory` on the node, which a container can see. `run` executes a job in a
/// writable root file system and returns the exit status. Throws Error{InvalidInput} if the command
/// fails, leaving the store unchanged.
StoredImage built_image(
    const ContainerJob& job, ImageStore& store, const StoredImage& base,
    const std::filesystem::path& directory,
    const std::function<int(const ContainerJob& build, const StoredImage& image)>& run);

}  // namespace dlflow
