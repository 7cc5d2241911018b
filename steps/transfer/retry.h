#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

/// Retries of temporary failures.
namespace dlflow::steps {

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
