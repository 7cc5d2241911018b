#include "steps/transfer/rclone.h"

#include <cstdlib>

#include "base/file.h"
#include "steps/transfer/download.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A remote that fails once, after it has given `first`, and then has "new content".
class FailingRemote {
 public:
  explicit FailingRemote(const std::string& first) {
    const fs::path program = folder_.write("rclone", R"(#!/bin/sh
here=$(dirname "$0")
for argument; do case $argument in --offset=*) offset=${argument#--offset=} ;; esac; done
if [ -e "$here/first" ]; then
  cat "$here/first"; rm "$here/first"; echo 'connection reset' >&2; exit 1
fi
printf 'new content' | tail -c +$((offset + 1))
)");
    fs::permissions(program, fs::perms(0700));
    folder_.write("first", first);
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~FailingRemote() { ::setenv("PATH", path_.c_str(), 1); }

 private:
  test::TempDir folder_;
  std::string path_ = std::getenv("PATH");
};

/// Downloads a file of which the remote tells what is in `listed`.
Downloaded download_to(const fs::path& partial, const RemoteFile& listed) {
  return download(
      {.address = parse_address("rclone://remote/file"), .partial = partial, .listed = listed},
      partial.string() + ".tool", {.max_tries = 3, .first_wait = 1ms});
}

}  // namespace

TEST_CASE("what rclone brought before a failure is continued if it is the same", "[rclone]") {
  const test::TempDir folder;
  const FailingRemote remote("new ");
  const fs::path partial = folder.path() / "partial";
  CHECK(download_to(partial, {.name = "file", .bytes = 11, .version = "11 today"}).continued);
  CHECK(read_file(partial) == "new content");
}

TEST_CASE("what rclone brought before a failure is dropped if nobody knows what it was",
          "[rclone]") {
  const test::TempDir folder;
  const FailingRemote remote("old ");
  const fs::path partial = folder.path() / "partial";
  CHECK_FALSE(download_to(partial, {.name = "file"}).continued);
  CHECK(read_file(partial) == "new content");
}
