#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// The requirements on this machine, checked before CUDA and cuDNN are asked for anything. No CUDA
/// in here.
namespace dlflow::cuda {

/// Throws std::runtime_error, with both versions and what to do, if no driver of CUDA version
/// `driver` runs what was built with version `runtime`. Versions as CUDA counts: 13020 is 13.2.
void require_driver(int driver, int runtime);

/// Opens the libraries `names` of `folder`, or those that the loader finds if one is not there, and
/// leaves them open. cuDNN opens its parts when it first needs them, and ends the process if it
/// cannot. Throws std::runtime_error naming the library that cannot be opened and why.
void require_libraries(const std::filesystem::path& folder, std::span<const std::string> names);

/// The parts of cuDNN `major` that networks need: "libcudnn_cnn.so.9".
std::vector<std::string> cudnn_parts(int major);

}  // namespace dlflow::cuda
