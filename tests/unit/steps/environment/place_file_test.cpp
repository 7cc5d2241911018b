#include "steps/environment/place_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
namespace fs = std::filesystem;

TEST_CASE("a file in two places is one file, where that is possible", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", "content");
  place_file(from, folder.path() / "to");
  CHECK(fs::equivalent(from, folder.path() / "to"));
}

TEST_CASE("a copy is a file of its own, with the same content and mode", "[place file]") {
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
  CHECK(read_file(to) == content);  // what is there stays
}

TEST_CASE("what is not there cannot be placed", "[place file]") {
  const test::TempDir folder;
  for (const auto place : {place_file, place_copy}) {
    CHECK_THROWS_WITH(place(folder.path() / "none", folder.path() / "to"),
                      Catch::Contains("cannot open " + (folder.path() / "none").string()));
  }
  CHECK_FALSE(fs::exists(folder.path() / "to"));
}

TEST_CASE("of a copy that does not fit nothing is left", "[place file]") {
  const test::TempDir folder;
  const fs::path from = folder.write("from", std::string(100'000, 'x'));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{50'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string said;
  try {
    place_copy(from, folder.path() / "to");
  } catch (const Error& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK_THAT(said, Catch::StartsWith("cannot write " + (folder.path() / "to").string()));
  CHECK_FALSE(fs::exists(folder.path() / "to"));
}
