#include "runtime/gpu/plugin_abi.h"

/// A plug-in with the previous interface: nothing after its first number may be read.
extern "C" const uint32_t* dlflow_gpu_plugin() {
  static const uint32_t abi = DLFLOW_GPU_ABI - 1;
  return &abi;
}
