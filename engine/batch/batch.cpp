#include "engine/batch/batch.h"

#include <algorithm>

#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kTimeToRecord{30};

/// The smaller of two limits; 0 is no limit.
int smaller_limit(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

minutes time_limit(const Resources& resources, const Profile& profile) {
  if (resources.walltime.count() == 0) return minutes(0);
  const minutes wanted = std::chrono::ceil<minutes>(resources.walltime + kTimeToRecord);
  if (profile.limits.walltime.count() == 0) return wanted;
  const minutes allowed = std::chrono::floor<minutes>(profile.limits.walltime);
  return std::max(minutes(1), std::min(wanted, allowed));
}

seconds own_limit(seconds limit, const Resources& resources, const Profile& profile) {
  const bool is_own = resources.walltime.count() > 0 && limit == time_limit(resources, profile);
  return is_own ? std::min(limit, resources.walltime) : limit;
}

Resources packed(Resources resources, size_t elements) {
  if (resources.walltime.count() == 0 || elements < 2) return resources;
  const auto more = int64_t(elements) - 1;
  resources.walltime += more * (resources.walltime + kTimeToRecord);
  return resources;
}

seconds warning_time(minutes limit, seconds lead) {
  constexpr seconds kLongest(65'000);  // SLURM's maximum is 65,535 s
  if (lead.count() > 0) {
    return std::min({lead, kLongest, limit.count() == 0 ? kLongest : seconds(limit) / 2});
  }
  if (limit.count() == 0) return seconds(60);
  return std::clamp(seconds(limit) / 6, seconds(10), seconds(60));
}

int array_throttle(const Batch& batch, const Profile& profile) {
  return smaller_limit(batch.max_parallel, profile.limits.array_throttle);
}

std::string batch_shell() { return host_shell(); }

}  // namespace dlflow
