#include "steps/transfer/rsync.h"

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace dlflow::steps;

namespace {

/// An rsync that is a script, first in PATH until the end of a test.
class FakeRsync {
 public:
  explicit FakeRsync(const std::string& lines) {
    folder_.write_program("rsync", "#!/bin/sh\necho \"$*\" >> " +
                                       (folder_.path() / "calls").string() + "\n" + lines + "\n");
  }

  Uploaded upload(uint64_t bytes_per_second = 0) const {
    UploadRequest request;
    request.file = folder_.write("x", "content");
    request.address = parse_address("ssh://host/place/x");
    request.bytes_per_second = bytes_per_second;
    request.progress = [](uint64_t) {};
    return rsync_upload(request, folder_.path() / "temporary");
  }

  std::vector<RemoteFile> list(const std::string& address) const {
    return rsync_list(parse_address(address), folder_.path() / "temporary");
  }

  std::string calls() const { return read_file(folder_.path() / "calls"); }

 private:
  test::TempDir folder_;
  test::Variable path_{"PATH", test::path_with(folder_.path())};
};

constexpr const char* kSent = "case \"$*\" in *--dry-run*) ;; *) echo sent ;; esac";

}  // namespace

TEST_CASE("a sent file is compared with the remote's file", "[upload]") {
  const FakeRsync rsync(kSent);
  CHECK(rsync.upload() == Uploaded::Sent);
  CHECK_THAT(rsync.calls(), Catch::Contains("--dry-run"));
}

TEST_CASE("an existing file is not sent again", "[upload]") {
  const FakeRsync rsync("true");
  CHECK(rsync.upload() == Uploaded::AlreadyThere);
  CHECK_THAT(rsync.calls(), !Catch::Contains("--dry-run"));
}

TEST_CASE("a remote file that differs after sending is an error", "[upload]") {
  const FakeRsync rsync("case \"$*\" in *--dry-run*) echo differs ;; *) echo sent ;; esac");
  CHECK_THROWS_WITH(rsync.upload(), Catch::EndsWith("does not match what was sent to it"));
}

TEST_CASE("an rsync that fails to send or compare is an error", "[upload]") {
  const FakeRsync sending("echo sent; exit 23");
  CHECK_THROWS_WITH(sending.upload(), Catch::Contains("cannot send to "));
  const FakeRsync comparing("case \"$*\" in *--dry-run*) exit 23 ;; *) echo sent ;; esac");
  CHECK_THROWS_WITH(comparing.upload(), Catch::Contains("cannot verify "));
}

TEST_CASE("rsync gets its bandwidth in KiB per second", "[upload]") {
  const FakeRsync rsync(kSent);
  rsync.upload(10 * 1024);
  CHECK_THAT(rsync.calls(), Catch::Contains("--bwlimit=10 "));
}

TEST_CASE("only the files in rsync's list are read", "[rsync]") {
  const FakeRsync rsync(
      "echo 'cd+++++++++ 4096 2026/01/31-12:00:00 rwxr-xr-x sub/'\n"
      "echo '>f+++++++++ 7 2026/01/31-12:00:00 rwxr-xr-x b c'\n"
      "echo '>f+++++++++ 12 2026/02/01-12:00:00 rw-r--r-- a'\n"
      "echo '>f+++++++++ 12 cut'");
  const std::vector<RemoteFile> files = rsync.list("ssh://host:2222/place/");
  REQUIRE(files.size() == 2);
  CHECK(files[0].name == "a");
  CHECK(files[0].bytes == 12U);
  CHECK(files[0].version == "12 2026/02/01-12:00:00");
  CHECK_FALSE(files[0].executable);
  CHECK(files[1].name == "b c");
  CHECK(files[1].executable);
  CHECK_THAT(rsync.calls(), Catch::Contains(" -p 2222 ") && Catch::Contains("--recursive"));
}

TEST_CASE("rsync gets a port only if there is one", "[rsync]") {
  const FakeRsync rsync("echo '>f+++++++++ 7 2026/01/31-12:00:00 rw-r--r-- x'");
  CHECK(rsync.list("ssh://host/place/x").at(0).name.empty());
  CHECK_THAT(rsync.calls(), !Catch::Contains(" -p ") && !Catch::Contains("--recursive"));
}

TEST_CASE("a folder requested as a file is refused with what to do", "[rsync]") {
  const FakeRsync rsync("echo 'skipping directory place'");
  CHECK_THROWS_WITH(rsync.list("ssh://host/place"),
                    Catch::Contains("only files are staged, and there is a directory place; add a "
                                    "/ at the end to take all files in a folder"));
  const FakeRsync failing("echo 'Connection refused' >&2; exit 255");
  CHECK_THROWS_WITH(failing.list("ssh://host/place"), Catch::Contains("cannot list ssh://host"));
}
