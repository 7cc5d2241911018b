#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/json.h"

namespace dlflow::steps {

/// The limits for all transfers of one step together.
struct TransferLimits {
  size_t parallel = 4;            ///< concurrent transfers
  uint64_t bytes_per_second = 0;  ///< 0: no limit

  /// The number of threads for `num_files` files.
  size_t threads(size_t num_files) const;

  /// The bandwidth of each transfer: an equal share, since a running program's limit cannot change.
  uint64_t share(size_t num_files) const;
};

/// Waits until the average rate of `bytes` since `begin` is at most `bytes_per_second` (0: no
/// limit). The programs get a limit, too, but exempt the first megabytes, so small files would have
/// none. Throws Stopped.
void keep_pace(std::chrono::steady_clock::time_point begin, uint64_t bytes,
               uint64_t bytes_per_second);

/// Parses the keys `parallel` and `bandwidth` of a step's `with:`. Throws Error{InvalidInput}.
TransferLimits parse_limits(const Json& with);

/// The number of tries of a transfer, and the wait between them. The wait doubles each time; a try
/// that transferred some bytes restarts the count.
struct RetryPolicy {
  int max_tries = 5;
  std::chrono::milliseconds first_wait{1000};
};

/// Calls `attempt` until it does not throw. `bytes` returns the number of bytes that have arrived.
/// Throws the last try's exception, at once if it is not retryable(), and Stopped.
void with_retries(const RetryPolicy& policy, const std::function<uint64_t()>& bytes,
                  const std::function<void()>& attempt);

}  // namespace dlflow::steps
