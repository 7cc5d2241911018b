#include "base/file_lock.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Locks a file in each way.
void lock_in_every_way(const fs::path& path, const std::string& reason) {
  CHECK_THROWS_WITH(FileLock::try_acquire(path, "tests"), Catch::Contains(reason));
  CHECK_THROWS_WITH(FileLock::acquire(path, "tests"), Catch::Contains(reason));
  CHECK_THROWS_WITH(FileLock::share(path), Catch::Contains(reason));
  CHECK_THROWS_WITH(FileLock::try_share(path), Catch::Contains(reason));
}

}  // namespace

TEST_CASE("a file that is not a lock file is not locked, and stays unchanged",
          "[file lock][attack]") {
  const test::TempDir folder;
  const fs::path file = folder.write("thesis.tex", "precious");
  lock_in_every_way(file, "is not a lock file; it is left unchanged");
  CHECK(read_file(file) == "precious");
}

TEST_CASE("a symbolic link in place of a lock file is not followed", "[file lock][attack]") {
  const test::TempDir folder;
  const fs::path file = folder.write("thesis.tex", "");
  fs::create_symlink(file, folder.path() / "link");
  fs::create_symlink(folder.path() / "none", folder.path() / "dangling");
  lock_in_every_way(folder.path() / "link", "is a link, not a lock file");
  lock_in_every_way(folder.path() / "dangling", "is a link, not a lock file");
  CHECK_FALSE(fs::exists(folder.path() / "none"));
}

TEST_CASE("a lock file that an earlier owner left behind is taken over", "[file lock]") {
  const test::TempDir folder;
  const fs::path file = folder.path() / "lock";
  FileLock::try_acquire(file, "downloads");
  CHECK(read_file(file) == process_name() + ", which downloads");
  CHECK(FileLock::try_acquire(file, "unpacks").has_value());
  CHECK(FileLock::try_acquire(file, "").has_value());
}
