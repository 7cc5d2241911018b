#include "steps/transfer/retry.h"

#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {

void with_retries(const RetryPolicy& policy, const std::function<uint64_t()>& bytes,
                  const std::function<void()>& attempt) {
  auto next_wait = policy.first_wait;
  for (int tries = 1;; ++tries) {
    const uint64_t before = bytes();
    try {
      attempt();
      return;
    } catch (const Error& error) {
      if (bytes() > before) {
        tries = 1;
        next_wait = policy.first_wait;
      }
      if (!error.retryable() || tries >= policy.max_tries) throw;
      std::printf("%s; trying again\n", escaped_lines(error.what()).c_str());
      std::fflush(stdout);
    }
    pause(next_wait);
    next_wait *= 2;
  }
}

}  // namespace dlflow::steps
