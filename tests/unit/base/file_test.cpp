#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/output_file.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("each user has a part of a shared folder", "[file]") {
  const test::TempDir folder;
  CHECK(private_part(folder.path()) == folder.path());
  CHECK(private_part(folder.path() / "none") == folder.path() / "none");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  CHECK(private_part(folder.path()) == folder.path() / ("user-" + std::to_string(::geteuid())));
}

TEST_CASE("a part of a shared folder that another user made is refused", "[file]") {
  const test::TempDir folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  const auto own = folder.path() / ("user-" + std::to_string(::geteuid()));
  SECTION("a folder of another user") {
    if (::geteuid() != 0) return test::skip("only root can give a folder away");
    make_directories(own);
    REQUIRE(::chown(own.c_str(), 12345, 12345) == 0);
    CHECK_THROWS_WITH(private_part(folder.path()),
                      Catch::Contains("belongs to another user (12345)"));
    CHECK_THROWS_WITH(make_private_directory(own), Catch::Contains("have it removed"));
  }
  SECTION("a folder that others may enter") {
    make_directories(own);
    REQUIRE(::chmod(own.c_str(), 0770) == 0);
    CHECK_THROWS_WITH(private_part(folder.path()),
                      Catch::EndsWith("type `chmod 700 " + own.string() + "`"));
  }
  SECTION("a link, even to a folder of the same user") {
    const test::TempDir elsewhere;
    std::filesystem::create_directory_symlink(elsewhere.path(), own);
    CHECK_THROWS_WITH(private_part(folder.path()), Catch::Contains("is no folder"));
    CHECK_THROWS_WITH(make_private_directory(own), Catch::Contains("is no folder"));
  }
}

TEST_CASE("a private folder is made once", "[file]") {
  const test::TempDir folder;
  const auto own = folder.path() / "a";
  make_private_directory(own);
  make_private_directory(own);
  struct stat info {};
  REQUIRE(::stat(own.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("a pipe or a device in place of a file is refused without waiting", "[file][attack]") {
  const test::TempDir folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::filesystem::path& path : {pipe, std::filesystem::path("/dev/zero")}) {
    CHECK_THROWS_WITH(read_file(path), Catch::Contains("it is a pipe or a device, not a file"));
    CHECK_THROWS_WITH(read_file_if_exists(path), Catch::Contains("it is a pipe or a device"));
  }
}

TEST_CASE("a file is replaced as a whole, without leftovers beside it", "[file]") {
  const test::TempDir folder;
  const auto file = folder.path() / "a";
  write_file(file, "older than old");
  CHECK(read_file(file) == "older than old");
  write_file(file, "old");
  write_file_atomic(file, std::string(100'000, 'x'), Durability::Synced);
  CHECK(read_file(file) == std::string(100'000, 'x'));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK(sha256_file(file) == sha256_hex(std::string(100'000, 'x')));
}

TEST_CASE("a link in place of a new file is replaced, and its target stays", "[file]") {
  const test::TempDir folder;
  const auto mine = folder.write("mine", "precious");
  const auto soft = folder.path() / "soft";
  const auto hard = folder.path() / "hard";
  std::filesystem::create_symlink(mine, soft);
  std::filesystem::create_hard_link(mine, hard);
  write_file(soft, "new");
  write_file(hard, "new");
  CHECK(read_file(mine) == "precious");
  CHECK(read_file(soft) == "new");
  CHECK(read_file(hard) == "new");
}

TEST_CASE("the umask sets the mode of files for people, and records are private", "[file]") {
  const test::TempDir folder;
  const auto mode_of = [](const std::filesystem::path& path) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    return unsigned(info.st_mode & 0777);
  };
  for (const mode_t umask : {022, 027, 002}) {
    const mode_t before = ::umask(umask);
    make_output_folder(folder.path() / "out");
    write_output(folder.path() / "out/new", "1");
    write_file_atomic(folder.path() / "out/own", "1");
    ::umask(before);
    CHECK(mode_of(folder.path() / "out") == (0777 & ~umask));
    CHECK(mode_of(folder.path() / "out/new") == (0666 & ~umask));
    CHECK(mode_of(folder.path() / "out/own") == 0600);
    std::filesystem::remove_all(folder.path() / "out");
  }
}

TEST_CASE("an output is written through a link, into a pipe or a device, and these stay",
          "[file]") {
  const test::TempDir folder;
  const auto page = folder.write("www/index.html", "older than old");
  const auto link = folder.path() / "page.html", pipe = folder.path() / "pipe";
  std::filesystem::create_symlink("www/index.html", link);
  write_output(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_file(page) == "new");
  std::filesystem::create_symlink("www/none-yet", folder.path() / "dangling");
  write_output(folder.path() / "dangling", "new");
  CHECK(read_file(folder.path() / "www/none-yet") == "new");

  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_output(pipe, "through");
  char text[16] = {};
  CHECK(::read(reader.get(), text, sizeof text) == 7);
  CHECK(std::string(text) == "through");
  CHECK(std::filesystem::is_fifo(pipe));

  std::filesystem::create_symlink("/dev/null", folder.path() / "null");
  write_output(folder.path() / "null", "away");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK_THROWS_WITH(write_output(folder.path() / "www", "x"),
                    Catch::Contains("cannot write") && Catch::Contains("Is a directory"));
}

TEST_CASE("the error for an unreadable file gives no advice about writing", "[file]") {
  CHECK_THROWS_WITH(throw_errno("cannot open a", EACCES),
                    "cannot open a: Permission denied (ask its owner for permission to read it)");
  CHECK_THROWS_WITH(throw_errno("cannot write a", EACCES),
                    Catch::EndsWith("(choose a folder that you may write to)"));
}

TEST_CASE("a failed read reports its cause", "[file]") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(read_file(folder.path() / "none"), Catch::Contains("No such file"));
  CHECK_THROWS_WITH(read_file(folder.path()), Catch::Contains("it is a folder"));
  CHECK_THROWS_WITH(read_file(folder.write("big", "12345"), 4), Catch::Contains("too large"));
  CHECK_FALSE(read_file_if_exists(folder.path() / "none").has_value());
}

TEST_CASE("an append after a torn line marks that line and starts a new one", "[file]") {
  const test::TempDir folder;
  const auto file = folder.write("events", "{\"whole\":1}\n{\"to");
  AppendFile(file).append("{}");
  CHECK(read_file(file) == "{\"whole\":1}\n{\"to (torn)\n{}\n");
}

TEST_CASE("a private file can be opened only by its owner", "[file]") {
  const test::TempDir folder;
  const auto file = folder.write("secrets", "A=b");
  CHECK(read_private_file(file) == "A=b");
  CHECK_FALSE(read_private_file(folder.path() / "none").has_value());
  for (const mode_t mode : {0640, 0604, 0620, 0610, 0666}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    CHECK_THROWS_WITH(read_private_file(file),
                      Catch::EndsWith("type `chmod 600 " + file.string() + "`"));
  }
  REQUIRE(::chmod(file.c_str(), 0400) == 0);
  CHECK(read_private_file(file) == "A=b");
}

TEST_CASE("a private file of another user is not accepted as the user's own", "[file]") {
  const test::TempDir folder;
  const auto file = folder.write("secrets", "A=b");
  if (::geteuid() != 0) return;  // only root can give a file away
  REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
  CHECK_THROWS_WITH(read_private_file(file), Catch::Contains("belongs to another user"));
}
