#include "steps/transfer/limits.h"

#include <algorithm>

#include "base/error.h"
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

}  // namespace dlflow::steps
