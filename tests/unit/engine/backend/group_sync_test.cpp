#include "engine/backend/group_sync.h"

#include <poll.h>
#include <unistd.h>

#include <string>

#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

std::vector<uint64_t> wait_for_some(GroupSync& sync) {
  pollfd done{sync.descriptor(), POLLIN, 0};
  REQUIRE(::poll(&done, 1, 60'000) == 1);
  return sync.take();
}

}  // namespace

TEST_CASE("waiting tasks are answered in order as soon as the disk has synced", "[sync]") {
  const test::TempDir run;
  GroupSync sync(run.path());
  CHECK(sync.take().empty());
  sync.add(4, false);
  sync.add(2, false);
  sync.add(9, true);
  CHECK(wait_for_some(sync) == std::vector<uint64_t>{4, 2, 9});
  sync.add(5, false);  // no other caller comes
  CHECK(wait_for_some(sync) == std::vector<uint64_t>{5});
  CHECK(sync.take().empty());
}

TEST_CASE("a group sync covers the log that children of this process write", "[sync]") {
  const test::TempDir run;
  const GroupSync sync(run.path());
  const std::string name = boot_id() + "-" + std::to_string(::getpid()) + ".jsonl";
  CHECK(std::filesystem::exists(run.path() / "ends" / name));
}
