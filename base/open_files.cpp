#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace dlflow {
namespace {

rlimit limit_of_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

void allow_open_files(size_t wanted) {
  rlimit limit = limit_of_open_files();
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void throw_too_many_open_files() {
  const rlimit limit = limit_of_open_files();
  throw Error(
      Errc::Unavailable,
      "this process may open at most " + std::to_string(limit.rlim_cur) +
          " files and connections (its hard limit is " + std::to_string(limit.rlim_max) +
          "), but it needs more: raise the hard limit in /etc/security/limits.conf (nofile), or "
          "with LimitNOFILE= in the service that starts the job, such as slurmd");
}

}  // namespace dlflow
