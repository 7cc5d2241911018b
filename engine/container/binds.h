#pragma once

#include <vector>

#include "engine/container/container_job.h"
#include "engine/container/image_store.h"

/// The folders of the host that a container sees.
namespace dlflow {

/// The binds of `job`, the folders through which ranks of a node talk to each other and to their
/// launcher (/tmp, $TMPDIR, /dev/shm, PMIx's), the node's own disk ($DLFLOW_SCRATCH), and this
/// program. Folders come before what is in them; what is seen anyway is left out. Throws Error
/// naming what is not there, or cannot be bound.
std::vector<Bind> container_binds(const ContainerJob& job);

/// Makes what `binds` are mounted on exist in the image, under its lock: runtimes mount the image
/// read-only and could not. Throws Error naming what cannot be made.
void make_mount_points(const StoredImage& image, const std::vector<Bind>& binds, ImageStore& store);

}  // namespace dlflow
