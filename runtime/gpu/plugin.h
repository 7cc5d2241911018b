#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/comm/shared_library.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::runtime {

/// The opened libdlflow_cuda. It must outlive everything made with it.
class GpuPlugin {
 public:
  /// Throws Error{NotFound} if `file` or a library that it needs is missing, Error{InvalidInput} if
  /// it was built for another DLFLOW_GPU_ABI.
  explicit GpuPlugin(const std::filesystem::path& file);

  /// The usual place of builds and installations: beside the running program.
  static std::filesystem::path usual_file();

  /// The GPUs that this process may use; at least one. Throws Error{NotFound} if there is no GPU or
  /// no driver.
  std::vector<DlflowGpuDevice> devices() const;

  /// "CUDA 13.0, cuDNN 9.19.0"
  std::string arithmetic() const { return functions_->arithmetic(); }

  const DlflowGpuPlugin* operator->() const { return functions_; }

 private:
  SharedLibrary library_;
  const DlflowGpuPlugin* functions_;
};

/// Throws Error{Unavailable}, "what: `error`", unless `error` is null.
void check_gpu(DlflowGpuError error, const char* what);

}  // namespace dlflow::runtime
