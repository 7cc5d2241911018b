#pragma once

#include <cstddef>

/// The part of NCCL's interface in use, as in nccl.h of 2.14 and later. libnccl is opened at run
/// time, and few machines have its header. tests/gpu compares the two if it exists.
namespace dlflow::runtime::nccl {

// NOLINTBEGIN(readability-identifier-naming): constants of an interface
enum Result : int { kSuccess = 0, kInProgress = 7 };
enum DataType : int { kFloat32 = 7 };
enum Operation : int { kSum = 0 };
// NOLINTEND(readability-identifier-naming)

struct UniqueId {
  char internal[128];
};

/// ncclConfig_t of 2.14. Later libraries read as many bytes as `size` gives, and use defaults for
/// fields that are newer than `version`.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Comm;           // opaque
using Stream = void*;  // cudaStream_t

}  // namespace dlflow::runtime::nccl
