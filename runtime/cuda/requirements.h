#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// Requirements on this machine, checked before any call of CUDA and cuDNN. Does not use CUDA.
namespace dlflow::cuda {

/// Throws std::runtime_error, with both versions and what to do, if drivers of CUDA version
/// `driver` cannot run programs built with version `runtime`. Version 13.2 is the number 13020.
void require_driver(int driver, int runtime);

/// Opens the libraries `names` in `folder`, or as the loader finds them if they are not there, and
/// leaves them open. cuDNN opens its parts on first use, and ends the process if it cannot. Throws
/// std::runtime_error naming the library that cannot be opened and why.
void require_libraries(const std::filesystem::path& folder, std::span<const std::string> names);

/// The parts of cuDNN `major` that networks need: "libcudnn_cnn.so.9".
std::vector<std::string> cudnn_parts(int major);

}  // namespace dlflow::cuda
