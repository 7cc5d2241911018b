#include "runtime/cuda/requirements.h"

#include <dlfcn.h>

#include <stdexcept>

namespace dlflow::cuda {
namespace {

std::string cuda_version(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The first driver of a major version of CUDA; "" if unknown here.
std::string first_driver_of(int major) {
  if (major == 12) return " (driver 525 or later)";
  if (major == 13) return " (driver 580 or later)";
  return "";
}

}  // namespace

/// Drivers run programs built with their own or an earlier major version of CUDA.
void require_driver(int driver, int runtime) {
  if (driver == 0) throw std::runtime_error("there is no NVIDIA driver here");
  const int major = runtime / 1000;
  if (driver / 1000 >= major) return;
  throw std::runtime_error(
      "the NVIDIA driver here is for " + cuda_version(driver) +
      ", but libdlflow_cuda was built with " + cuda_version(runtime) +
      ", which needs a driver for CUDA " + std::to_string(major) + first_driver_of(major) +
      "; update the driver, or build dlflow with CUDA " + std::to_string(driver / 1000));
}

void require_libraries(const std::filesystem::path& folder, std::span<const std::string> names) {
  for (const std::string& name : names) {
    std::error_code ignored;
    const std::filesystem::path here = folder / name;
    const std::string file = std::filesystem::exists(here, ignored) ? here.string() : name;
    if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
    const char* why = ::dlerror();
    throw std::runtime_error(name + ", a part of cuDNN, cannot be opened (" +
                             (why ? why : "unknown error of the loader") +
                             "); install all of cuDNN, whose libcudnn is in " + folder.string());
  }
}

std::vector<std::string> cudnn_parts(int major) {
  std::vector<std::string> names;
  for (const char* part : {"graph", "ops", "cnn", "heuristic", "engines_precompiled"}) {
    names.push_back(std::string("libcudnn_") + part + ".so." + std::to_string(major));
  }
  return names;
}

}  // namespace dlflow::cuda
