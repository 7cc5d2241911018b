#pragma once

#include <filesystem>

#include "base/archive/byte_source.h"

/// One layer of an image.
namespace dlflow {

/// Applies the layer (a tar) to the root file system in the folder `root`: adds, replaces or
/// removes (whiteouts) files. Returns the number of its entries. Writes nothing outside of `root`,
/// whatever names and links the layer has. Files become read-only; owners, devices and set-user-id
/// bits are not kept. Throws Error if the archive is damaged, has more than `max_entries`, or
/// cannot be written. Source: OCI image specification 1.1, "Image Layer Filesystem Changeset".
uint64_t apply_layer(ByteSource& layer, const std::filesystem::path& root, uint64_t max_entries);

}  // namespace dlflow
