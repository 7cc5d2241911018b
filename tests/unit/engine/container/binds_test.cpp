#include "engine/container/binds.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

bool sees(const ContainerJob& job, const std::string& folder) {
  const std::vector<Bind> binds = container_binds(job);
  return std::any_of(binds.begin(), binds.end(), [&](const Bind& bind) {
    return bind.source == folder && bind.target == folder && !bind.read_only;
  });
}

}  // namespace

TEST_CASE("a container sees the node's own disk, where there is one", "[binds]") {
  ContainerJob job;
  CHECK_FALSE(sees(job, "/var/tmp"));
  job.environment["DLFLOW_SCRATCH"] = "/var/tmp";
  CHECK(sees(job, "/var/tmp"));
  job.environment["DLFLOW_SCRATCH"] = "/no/such/disk";
  CHECK_FALSE(sees(job, "/no/such/disk"));
}
