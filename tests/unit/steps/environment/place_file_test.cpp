#include "steps/environment/place_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
namespace fs = std::filesystem;

TEST_CASE("a file is placed by a hard link if possible", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", "content");
  place_file(from, folder.path() / "to");
  CHECK(fs::equivalent(from, folder.path() / "to"));
}

TEST_CASE("a copy is a separate file, with the same content and mode", "[place file]") {
  const test::TempDir folder;
  const fs::path to = folder.path() / "to";
  const std::string content =
      GENERATE(std::string(), std::string("content"), std::string((size_t{1} << 24) + 1, 'x'));
  const fs::path from = folder.write("from", content);
  fs::permissions(from, fs::perms(0540));
  place_copy(from, to);
  CHECK_FALSE(fs::equivalent(from, to));
  CHECK(read_file(to) == content);
  CHECK(fs::status(to).permissions() == fs::perms(0540));
  CHECK_THROWS_WITH(place_copy(from, to), Catch::Contains("cannot write " + to.string()));
  CHECK(read_file(to) == content);  // the existing file stays
}

TEST_CASE("a missing file cannot be placed", "[place file]") {
  const test::TempDir folder;
  for (const auto place : {place_file, place_copy}) {
    CHECK_THROWS_WITH(place(folder.path() / "none", folder.path() / "to"),
                      Catch::Contains("cannot open " + (folder.path() / "none").string()));
  }
  CHECK_FALSE(fs::exists(folder.path() / "to"));
}

TEST_CASE("a copy that does not fit leaves nothing", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", std::string(100'000, 'x'));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{50'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = test::error_of([&] { place_copy(from, folder.path() / "to"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK_THAT(said, Catch::StartsWith("cannot write " + (folder.path() / "to").string()));
  CHECK_FALSE(fs::exists(folder.path() / "to"));
}

TEST_CASE("a file is copied if no link can be made", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", "content");
  const fs::path to = folder.path() / "to";
  const auto ended = test::run_without(SYS_link, EXDEV, [&] { place_file(from, to); });
  if (!ended) return test::skip("system calls cannot be traced");
  CHECK(ended == 0);
  CHECK_FALSE(fs::equivalent(from, to));
  CHECK(read_file(to) == "content");
}

TEST_CASE("a copy continues after a signal", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", "content");
  int copies = 0;
  const auto fate_of = [&](uint64_t call) {
    if (call != SYS_sendfile || copies++ != 0) return test::Fate::made();
    return test::Fate::fails(EINTR);
  };
  const auto ended = test::run_watched(fate_of, [&] { place_copy(from, folder.path() / "to"); });
  if (!ended) return test::skip("system calls cannot be traced");
  CHECK(ended == 0);
  CHECK(read_file(folder.path() / "to") == "content");
}

TEST_CASE("an incomplete copy is an error, and is removed", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", "content");
  const uint64_t fails = GENERATE(SYS_sendfile, SYS_close, SYS_fstat);
  const auto fate_of = [&](uint64_t call) {
    if (call == SYS_newfstatat) call = SYS_fstat;  // glibc 2.36 calls one of them, 2.41 the other
    return call == fails ? test::Fate::fails(EIO) : test::Fate::made();
  };
  const auto ended = test::run_watched(fate_of, [&] { place_copy(from, folder.path() / "to"); });
  if (!ended) return test::skip("system calls cannot be traced");
  CHECK(ended == 1);
  CHECK_FALSE(fs::exists(folder.path() / "to"));
}
