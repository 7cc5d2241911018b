#pragma once

#include <cstddef>

/// The part of NCCL's interface that is used, as nccl.h of 2.14 and later has it: libnccl is opened
/// at run time, and its header is on few machines. tests/gpu compares the two where it is.
namespace dlflow::runtime::nccl {

// NOLINTBEGIN(readability-identifier-naming): constants of an interface
enum Result : int { kSuccess = 0, kInProgress = 7 };
enum DataType : int { kFloat32 = 7 };
enum Operation : int { kSum = 0 };
// NOLINTEND(readability-identifier-naming)

struct UniqueId {
  char internal[128];
};

/// ncclConfig_t as it was in 2.14. Later libraries read as many bytes as `size` says, and take what
/// `version` did not know from their defaults.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Comm;           // opaque
using Stream = void*;  // cudaStream_t

}  // namespace dlflow::runtime::nccl
