#pragma once

#include <filesystem>

#include "runtime/import/sources.h"

namespace dlflow::runtime {

/// Whether `folder` has the folders `images` and `masks`.
bool has_masked_pictures(const std::filesystem::path& folder);

/// The pictures of `folder`/images, in the order of their names, each with the mask of the same
/// name but for the ending in `folder`/masks. `folder`/classes.txt, if it is there, names the
/// classes; else there is one more than the largest number in the masks, which are all read for it.
/// Throws Error: NotFound, InvalidInput; what is wrong with a sample, when it is read.
ImportedSplit open_masked_pictures(const std::filesystem::path& folder,
                                   const ImportOptions& options);

}  // namespace dlflow::runtime
