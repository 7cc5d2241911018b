#include "base/remove_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/deep_tree.h"
#include "tests/support/limited.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("a folder of thousands of levels is removed with a few descriptors",
          "[remove tree][attack]") {
  const test::TempDir folder;
  const fs::path root = folder.path() / "deep";
  test::make_deep(root, 5000);
  const test::Limited<RLIMIT_NOFILE> few(64);
  remove_tree(root);
  CHECK_FALSE(fs::exists(root));
}

TEST_CASE("a tree is removed with its content, but without the targets of its links",
          "[remove tree]") {
  const test::TempDir folder;
  const fs::path kept = folder.write("kept/file", "precious").parent_path();
  const fs::path root = folder.path() / "tree";
  for (const char* name : {"a/b/c", "a/x/y", "e", ".removed.0", ".removed.1/f"}) {
    make_directories(root / name);
  }
  folder.write("tree/.removed.2", "");
  folder.write("tree/a/b/c/file", "");
  fs::create_directory_symlink(kept, root / "a/link");
  fs::create_symlink("nowhere", root / "a/b/dangling");
  REQUIRE(::mkfifo((root / "e/pipe").c_str(), 0600) == 0);
  fs::permissions(root / "a/b/c", fs::perms(0500));
  fs::permissions(root / "a/b", fs::perms(0));
  remove_tree(root);
  CHECK_FALSE(fs::exists(root));
  CHECK(read_file(kept / "file") == "precious");
}

TEST_CASE("remove_tree removes a file, a link, or nothing", "[remove tree]") {
  const test::TempDir folder;
  const fs::path kept = folder.write("kept/file", "precious");
  const fs::path link = folder.path() / "link";
  fs::create_directory_symlink(kept.parent_path(), link);
  remove_tree(link);
  CHECK_FALSE(fs::exists(fs::symlink_status(link)));
  remove_tree(folder.write("file", ""));
  remove_tree(folder.path() / "none");
  remove_tree(folder.path() / "none/none");
  CHECK(fs::exists(kept));
  std::error_code error;
  remove_tree("/proc/self/fd", error);
  CHECK(error);
  CHECK_THROWS_AS(remove_tree("/proc/self/fd"), Error);
}
