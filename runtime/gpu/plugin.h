#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/comm/shared_library.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::runtime {

/// libdlflow_cuda, opened. What is made with it must not outlive it.
class GpuPlugin {
 public:
  /// Throws Error{NotFound} if `file` or a library that it needs is missing, Error{InvalidInput} if
  /// it was built for another DLFLOW_GPU_ABI.
  explicit GpuPlugin(const std::filesystem::path& file);

  /// Beside the program that runs: where the build and an installation put it.
  static std::filesystem::path usual_file();

  /// The GPUs that this process may use; at least one.
  /// Throws Error{NotFound} if there is none, or no driver.
  std::vector<DlflowGpuDevice> devices() const;

  /// "CUDA 13.0, cuDNN 9.19.0"
  std::string arithmetic() const { return functions_->arithmetic(); }

  const DlflowGpuPlugin* operator->() const { return functions_; }

 private:
  SharedLibrary library_;
  const DlflowGpuPlugin* functions_;
};

/// Throws Error{Unavailable}: "what: `error`", unless that is null.
void check_gpu(DlflowGpuError error, const char* what);

}  // namespace dlflow::runtime
