#pragma once

#include <vector>

#include "engine/container/container_job.h"
#include "engine/container/image_store.h"

/// The folders of the host that are visible in a container.
namespace dlflow {

/// The binds of `job`, the folders that ranks of a node use to communicate with each other and with
/// their launcher (/tmp, $TMPDIR, /dev/shm, PMIx's), the node's own disk ($DLFLOW_SCRATCH), and
/// this program. Folders come before their content; paths that are visible anyway are left out.
/// Throws Error naming a path that is missing or cannot be bound.
std::vector<Bind> container_binds(const ContainerJob& job);

/// Creates the mount points of `binds` in the image, under its lock: runtimes mount the image
/// read-only and cannot do so. Throws Error naming one that cannot be created.
void make_mount_points(const StoredImage& image, const std::vector<Bind>& binds, ImageStore& store);

}  // namespace dlflow
