#include "base/file.h"

#include "base/error.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("a file is replaced as a whole and leaves nothing beside it", "[file]") {
  const test::TempDir folder;
  const auto file = folder.path() / "a";
  write_file_atomic(file, "old");
  write_file_atomic(file, std::string(100'000, 'x'), Durability::Synced);
  CHECK(read_file(file) == std::string(100'000, 'x'));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK(sha256_file(file) == sha256_hex(std::string(100'000, 'x')));
}

TEST_CASE("reading says what is wrong", "[file]") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(read_file(folder.path() / "none"), Catch::Contains("No such file"));
  CHECK_THROWS_WITH(read_file(folder.path()), Catch::Contains("it is a folder"));
  CHECK_THROWS_WITH(read_file(folder.write("big", "12345"), 4), Catch::Contains("too large"));
  CHECK_FALSE(read_file_if_exists(folder.path() / "none").has_value());
}

TEST_CASE("appending after a torn line starts a line of its own", "[file]") {
  const test::TempDir folder;
  const auto file = folder.write("events", "{\"whole\":1}\n{\"to");
  AppendFile(file).append("{}");
  CHECK(read_file(file) == "{\"whole\":1}\n{\"to\n{}\n");
}
