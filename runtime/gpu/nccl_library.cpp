#include "runtime/gpu/nccl_library.h"

#include <cstdlib>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr int kOldest = 21400;  // 2.14.0 in NCCL's encoding

SharedLibrary open(const std::string& name) {
  // NVLink switches add in no fixed order. NCCL reads this once; a user's setting has priority.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  try {
    return SharedLibrary(name);
  } catch (const Error& e) {
    throw Error(e.code(), std::string("several GPUs need NCCL, which cannot be opened (") +
                              e.what() +
                              "); install libnccl2 or put its folder into LD_LIBRARY_PATH, or ask "
                              "for one rank");
  }
}

std::string version_text(int code) {
  // Up to 2.8 the minor version had one digit.
  const int unit = code < 10000 ? 1000 : 10000;
  return std::to_string(code / unit) + "." + std::to_string(code % unit / 100) + "." +
         std::to_string(code % 100);
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& name) : library_(open(name)) {
  nccl::Result (*get_version)(int*) = nullptr;
  library_.find("ncclGetVersion", get_version);
  int code = 0;
  get_version(&code);
  version_ = "NCCL " + version_text(code);
  if (code < kOldest) {
    throw Error(Errc::InvalidInput, name + " is " + version_ + ", but dlflow needs 2.14 or later");
  }
  library_.find("ncclGetUniqueId", get_unique_id);
  library_.find("ncclCommInitRankConfig", init);
  library_.find("ncclCommFinalize", finalize);
  library_.find("ncclCommDestroy", destroy);
  library_.find("ncclCommAbort", abort);
  library_.find("ncclCommGetAsyncError", get_async_error);
  library_.find("ncclGetErrorString", error_text);
  library_.find("ncclGetLastError", last_error);
  library_.find("ncclAllReduce", all_reduce);
}

}  // namespace dlflow::runtime
