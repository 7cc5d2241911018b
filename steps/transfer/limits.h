#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/json.h"

namespace dlflow::steps {

/// The limits for all transfers of one step together.
struct TransferLimits {
  size_t parallel = 4;            ///< transfers at a time
  uint64_t bytes_per_second = 0;  ///< 0: no limit

  /// Number of threads for `num_files` files.
  size_t threads(size_t num_files) const;

  /// The bandwidth of each: an equal share, since a program's limit is told once.
  uint64_t share(size_t num_files) const;
};

/// Waits until `bytes` since `begin` are not more than `bytes_per_second` (0: no limit). Programs
/// are told their limit, too, but let the first megabytes through: small files would have none.
/// Throws Stopped.
void keep_pace(std::chrono::steady_clock::time_point begin, uint64_t bytes,
               uint64_t bytes_per_second);

/// From the keys `parallel` and `bandwidth` of a step's `with:`. Throws Error{InvalidInput}.
TransferLimits parse_limits(const Json& with);

}  // namespace dlflow::steps
