#include "runtime/gpu/plugin.h"

#include <cstdlib>

#include "base/error.h"
#include "base/process.h"

namespace dlflow::runtime {
namespace {

SharedLibrary open(const std::filesystem::path& file) {
  // Otherwise CUDA loads a kernel at its first launch, and may then wait for all work of the
  // device, even for a sum that waits for another rank. CUDA reads this once; a user's setting has
  // priority.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  try {
    return SharedLibrary(file);
  } catch (const Error& e) {
    throw Error(e.code(),
                std::string("'device: cuda' needs libdlflow_cuda, which cannot be "
                            "opened (") +
                    e.what() +
                    "); build dlflow where CMake finds CUDA, cuDNN and cuBLASLt, or leave "
                    "'device' out");
  }
}

}  // namespace

GpuPlugin::GpuPlugin(const std::filesystem::path& file)
    : library_(open(file)),
      functions_(
          library_.functions<DlflowGpuPluginFunction>(DLFLOW_GPU_PLUGIN_SYMBOL, DLFLOW_GPU_ABI)) {}

std::filesystem::path GpuPlugin::usual_file() {
  return this_program().parent_path() / "libdlflow_cuda.so";
}

std::vector<DlflowGpuDevice> GpuPlugin::devices() const {
  const char* advice = "; run it where there is an NVIDIA GPU, or leave 'device: cuda' out";
  int32_t count = 0;
  if (const DlflowGpuError error = functions_->count_devices(&count)) {
    throw Error(Errc::NotFound, std::string("no GPU can be used: ") + error + advice);
  }
  if (count == 0) {
    throw Error(Errc::NotFound, std::string("this process sees no GPU: ask for some with "
                                            "`resources: {gpus_per_rank: 1}`") +
                                    advice);
  }
  std::vector<DlflowGpuDevice> devices(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    check_gpu(functions_->describe_device(i, &devices[size_t(i)]), "looking at the GPU");
  }
  return devices;
}

void check_gpu(DlflowGpuError error, const char* what) {
  if (error) throw Error(Errc::Unavailable, std::string(what) + ": " + error);
}

}  // namespace dlflow::runtime
