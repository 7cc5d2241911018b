#pragma once

#include <string>

#include "runtime/comm/shared_library.h"
#include "runtime/gpu/nccl_abi.h"

namespace dlflow::runtime {

/// The opened libnccl, with its functions under their own names.
class NcclLibrary {
 public:
  /// Throws Error{NotFound} if the library is missing, Error{InvalidInput} if it is older than
  /// 2.14, the first version with non-blocking communicators.
  explicit NcclLibrary(const std::string& name);

  /// "NCCL 2.28.9"
  const std::string& version() const { return version_; }

  nccl::Result (*get_unique_id)(nccl::UniqueId*);
  nccl::Result (*init)(nccl::Comm**, int num_ranks, nccl::UniqueId, int rank, nccl::Config*);
  nccl::Result (*finalize)(nccl::Comm*);
  nccl::Result (*destroy)(nccl::Comm*);
  nccl::Result (*abort)(nccl::Comm*);
  nccl::Result (*get_async_error)(nccl::Comm*, nccl::Result*);
  const char* (*error_text)(nccl::Result);
  const char* (*last_error)(nccl::Comm*);  ///< "" if there is nothing to add

  nccl::Result (*all_reduce)(const void* from, void* to, size_t count, nccl::DataType,
                             nccl::Operation, nccl::Comm*, nccl::Stream);

 private:
  SharedLibrary library_;
  std::string version_;
};

}  // namespace dlflow::runtime
