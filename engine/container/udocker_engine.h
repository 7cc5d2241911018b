#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/container/runtime.h"

/// The programs that udocker starts containers with.
namespace dlflow {

/// Variables ("NAME=value") that select udocker's proot or runc: the one in PATH if there is one
/// (proot through a script in `folder` that works around a fault of Debian's), otherwise the folder
/// of `udocker install`, if there is one.
std::vector<std::string> udocker_engine(const std::string& mode, const std::filesystem::path& cache,
                                        const std::filesystem::path& folder);

/// Adds these variables to `call`, before its own, which name the container's repository.
void add_udocker_engine(Invocation& call, const std::string& mode,
                        const std::filesystem::path& cache, const std::filesystem::path& folder);

/// The version of the loaded NVIDIA driver, "535.104.05"; empty: none.
/// \param root  the folder that contains /sys and /proc.
std::string nvidia_driver(const std::filesystem::path& root = "/");

/// Whether an image has one of the folders into which `udocker setup --nvidia` copies libraries.
bool has_folder_for_driver(const std::filesystem::path& rootfs);

/// Whether the driver's CUDA library is where `udocker setup --nvidia` puts it in an image.
bool has_cuda_library(const std::filesystem::path& rootfs);

}  // namespace dlflow
