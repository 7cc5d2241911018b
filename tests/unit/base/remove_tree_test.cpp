#include "base/remove_tree.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// `root` and folders in folders below it, each with a file beside it.
void make_deep(const fs::path& root, int levels) {
  make_directories(root);
  FileDescriptor at(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < levels; ++i) {
    REQUIRE(::mkdirat(at.get(), "d", 0700) == 0);
    const FileDescriptor file(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0400));
    REQUIRE(file);
    at = FileDescriptor(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at);
  }
}

/// Few descriptors, until it is gone.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{64, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a folder of thousands of levels is removed with a few descriptors",
          "[remove tree][attack]") {
  const test::TempDir folder;
  const fs::path root = folder.path() / "deep";
  make_deep(root, 5000);
  const FewDescriptors few;
  remove_tree(root);
  CHECK_FALSE(fs::exists(root));
}

TEST_CASE("a tree is removed with all that is in it, and nothing that it links to",
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

TEST_CASE("what is removed may be a file, a link, or nothing", "[remove tree]") {
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
