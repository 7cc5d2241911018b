#pragma once

#include <filesystem>

#include "steps/stage/unpacking.h"

/// zip archives, of any size.
namespace dlflow::steps {

/// Hands every entry of the archive to `unpacking`. Throws Error{InvalidInput} for what is
/// encrypted or packed by a method other than deflate, Error{Corrupt} where the archive is damaged.
void read_zip(const std::filesystem::path& archive, Unpacking& unpacking);

}  // namespace dlflow::steps
