#include "base/link_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Leaves the lock as a process of another host that took it `age` ago.
void taken_elsewhere(const fs::path& path, std::chrono::seconds age) {
  ProcessIdentity owner = identify(::getpid()).value();
  owner.host = "another-node";
  owner.boot_id = "another-boot";
  write_file_atomic(path, to_json(owner).dump());
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  const timespec then{info.st_mtim.tv_sec - age.count(), 0};
  const timespec times[] = {then, then};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("one process holds the lock until it releases it", "[link_lock]") {
  const test::TempDir folder;
  const fs::path path = folder.path() / "lock.owner";
  {
    const auto lock = LinkLock::try_acquire(path);
    REQUIRE(lock.has_value());
    CHECK_FALSE(LinkLock::try_acquire(path).has_value());
    CHECK(read_file(path).find(host_name()) != std::string::npos);
  }
  CHECK(fs::is_empty(folder.path()));
  CHECK(LinkLock::try_acquire(path).has_value());
}

TEST_CASE("the lock of a dead process of this host is taken over", "[link_lock]") {
  const test::TempDir folder;
  const fs::path path = folder.path() / "lock.owner";
  const int status = test::in_child([&]() -> int {
    const auto lock = LinkLock::try_acquire(path);
    ::_exit(lock ? 0 : 1);  // as if killed: nothing is cleaned up
  });
  REQUIRE(status == 0);
  REQUIRE(fs::exists(path));
  CHECK(LinkLock::try_acquire(path).has_value());
}

TEST_CASE("the lock of another node stays with that node for its lease", "[link_lock]") {
  const test::TempDir folder;
  const fs::path path = folder.path() / "lock.owner";
  taken_elsewhere(path, kLockLease - std::chrono::seconds(20));
  CHECK_FALSE(LinkLock::try_acquire(path).has_value());
  taken_elsewhere(path, kLockLease + std::chrono::seconds(20));
  CHECK(LinkLock::try_acquire(path).has_value());
}

TEST_CASE("mount options tell where flock holds on one node only", "[link_lock]") {
  CHECK(keeps_locks_local("rw,localflock,lazystatfs"));
  CHECK(keeps_locks_local("rw,vers=3,nolock"));
  CHECK(keeps_locks_local("rw,vers=3,local_lock=all"));
  CHECK(keeps_locks_local("local_lock=flock"));
  CHECK_FALSE(keeps_locks_local("rw,vers=4.2,local_lock=none"));
  CHECK_FALSE(keeps_locks_local("rw,local_lock=posix"));
  CHECK_FALSE(keeps_locks_local("rw,flock"));
  const test::TempDir folder;
  CHECK_FALSE(has_local_flock(folder.path()));
}
