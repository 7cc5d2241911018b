#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

/// Trying again what failed for the moment.
namespace dlflow::steps {

/// The number of tries of a transfer, and the wait between them. The wait doubles each time; a try
/// that brought some bytes starts the count again.
struct RetryPolicy {
  int max_tries = 5;
  std::chrono::milliseconds first_wait{1000};
};

/// Calls `attempt` until it does not throw. `bytes` is how many have arrived. Throws what the last
/// try threw, at once if it is not retryable(), and Stopped.
void with_retries(const RetryPolicy& policy, const std::function<uint64_t()>& bytes,
                  const std::function<void()>& attempt);

}  // namespace dlflow::steps
