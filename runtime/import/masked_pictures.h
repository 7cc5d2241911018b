#pragma once

#include <filesystem>

#include "runtime/import/sources.h"

namespace dlflow::runtime {

/// Whether `folder` has the folders `images` and `masks`.
bool has_masked_pictures(const std::filesystem::path& folder);

/// Opens the pictures of `folder`/images, in the order of their names, with the masks of the same
/// names, except for extensions, in `folder`/masks. `folder`/classes.txt, if it exists, names the
/// classes; otherwise all masks are read, and their largest number plus one is the number of
/// classes. Throws Error: NotFound, InvalidInput; bad samples are reported when they are read.
ImportedSplit open_masked_pictures(const std::filesystem::path& folder,
                                   const ImportOptions& options);

}  // namespace dlflow::runtime
