#include "steps/transfer/limits.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {

size_t TransferLimits::threads(size_t num_files) const {
  return std::clamp<size_t>(num_files, 1, parallel);
}

uint64_t TransferLimits::share(size_t num_files) const {
  if (bytes_per_second == 0) return 0;
  return std::max<uint64_t>(bytes_per_second / threads(num_files), 1);
}

void keep_pace(std::chrono::steady_clock::time_point begin, uint64_t bytes,
               uint64_t bytes_per_second) {
  if (bytes_per_second == 0) return;
  const std::chrono::duration<double> due(double(bytes) / double(bytes_per_second));
  const auto since = std::chrono::steady_clock::now() - begin;
  pause(std::chrono::duration_cast<std::chrono::nanoseconds>(due - since));
}

TransferLimits parse_limits(const Json& with) {
  TransferLimits limits;
  const Json parallel = with.value("parallel", Json(limits.parallel));
  if (!parallel.is_number_integer() || parallel < 1) {
    throw Error(Errc::InvalidInput,
                "parallel: must be a number of transfers, 1 or more, not " + parallel.dump());
  }
  limits.parallel = parallel;
  const Json bandwidth = with.value("bandwidth", Json(0));
  if (!bandwidth.is_string() && (!bandwidth.is_number_integer() || bandwidth < 0)) {
    throw Error(Errc::InvalidInput,
                "bandwidth: must be a size per second, such as 10MB, not " + bandwidth.dump());
  }
  limits.bytes_per_second =
      bandwidth.is_string() ? parse_size(bandwidth.get<std::string>()) : bandwidth.get<uint64_t>();
  return limits;
}

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
