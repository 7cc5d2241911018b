#include "runtime/gpu/plugin_abi.h"

/// A plug-in of the interface before this one: nothing behind its first number may be looked at.
extern "C" const uint32_t* dlflow_gpu_plugin() {
  static const uint32_t abi = DLFLOW_GPU_ABI - 1;
  return &abi;
}
