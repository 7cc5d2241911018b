#include "steps/transfer/local.h"

#include <sys/stat.h>

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMegabyte = size_t{1} << 20;  // copied at a time

/// Sends a file to `to` and returns what happened.
Uploaded send(
    const fs::path& file, const fs::path& to,
    const std::function<void(uint64_t)>& progress = [](uint64_t) {}) {
  const std::string content = read_file(file);
  return local_upload({.file = file,
                       .sha256 = sha256_hex(content),
                       .bytes = content.size(),
                       .address = parse_address("file://" + to.string()),
                       .progress = progress});
}

void stop_at_a_megabyte(uint64_t bytes) {
  if (bytes == kMegabyte) throw Stopped{};
}

}  // namespace

TEST_CASE("a copy continues after the part that agrees", "[local]") {
  const test::TempDir folder;
  const std::string text = std::string(kMegabyte, 'a') + std::string(kMegabyte, 'b') + "end";
  const auto from = folder.write("from", text);
  const fs::path to = folder.path() / "to";
  const std::string left = GENERATE(as<std::string>(), "", "a", "A");
  for (const size_t bytes : {size_t{1}, kMegabyte + 5, 3 * kMegabyte}) {
    CAPTURE(left, bytes);
    write_file_atomic(to, left.empty() ? "" : text.substr(0, bytes).replace(0, 1, left));
    uint64_t last = 0;
    CHECK(copy_file(from, to, 0, [&](uint64_t now) { last = now; }) == sha256_hex(text));
    CHECK(read_file(to) == text);
    CHECK(last == text.size());
  }
}

TEST_CASE("a sent file is synced before and after it gets its name", "[local]") {
  const test::TempDir folder;
  const auto from = folder.write("from", "text");
  const auto order = test::order_of_syncs([&] { send(from, folder.path() / "to"); });
  if (!order) return test::skip("processes cannot be traced here");
  CHECK(*order == "sync rename sync");
}

TEST_CASE("a stopped copy keeps its part", "[local]") {
  const test::TempDir folder;
  const auto from = folder.write("from", std::string(3 * kMegabyte, 'x'));
  const fs::path to = folder.path() / "to";
  CHECK_THROWS_AS(copy_file(from, to, 0, stop_at_a_megabyte), Stopped);
  CHECK(fs::file_size(to) == kMegabyte);
}

TEST_CASE("a file is sent once, and again after a change on either side", "[local]") {
  const test::TempDir folder;
  const auto file = folder.write("file", "content");
  const fs::path to = folder.path() / "new/folder/file";
  CHECK(send(file, to) == Uploaded::Sent);
  CHECK(read_file(to) == "content");
  CHECK(send(file, to) == Uploaded::AlreadyThere);
  folder.write("new/folder/file", "CONTENT");
  CHECK(send(file, to) == Uploaded::Sent);
  CHECK(read_file(to) == "content");
  CHECK(std::distance(fs::directory_iterator(to.parent_path()), {}) == 1);
}

TEST_CASE("an interrupted sender's part is completed and becomes the file", "[local]") {
  const test::TempDir folder;
  const auto file = folder.write("file", std::string(3 * kMegabyte, 'x'));
  const fs::path to = folder.path() / "to/file";
  CHECK_THROWS_AS(send(file, to, stop_at_a_megabyte), Stopped);
  const fs::path part = to.parent_path() / ".file.dlflow-part";
  REQUIRE(fs::file_size(part) == kMegabyte);
  struct stat left {};
  REQUIRE(::stat(part.c_str(), &left) == 0);

  CHECK(send(file, to) == Uploaded::Sent);
  struct stat sent {};
  REQUIRE(::stat(to.c_str(), &sent) == 0);
  CHECK(sent.st_ino == left.st_ino);
}

TEST_CASE("two senders of one file do not write into one part", "[local]") {
  const test::TempDir folder;
  const std::string first(3 * kMegabyte, '1');
  const auto file = folder.write("first", first);
  const auto other = folder.write("second", std::string(3 * kMegabyte, '2'));
  const fs::path to = folder.path() / "to/file";
  bool begun = false;
  const auto send_other = [&](uint64_t) {
    if (!std::exchange(begun, true)) CHECK(send(other, to) == Uploaded::Sent);
  };
  CHECK(send(file, to, send_other) == Uploaded::Sent);
  CHECK((read_file(to) == first));  // not printed: it is long
  CHECK(std::distance(fs::directory_iterator(to.parent_path()), {}) == 1);
}

TEST_CASE("a part that another user planted is not written to", "[local]") {
  const test::TempDir folder;
  const auto file = folder.write("file", "content");
  const auto precious = folder.write("precious", "words");
  const fs::path to = folder.path() / "to/file";
  fs::create_directory(to.parent_path());
  const fs::path part = to.parent_path() / ".file.dlflow-part";
  SECTION("a link") { fs::create_symlink(precious, part); }
  SECTION("a second name") { fs::create_hard_link(precious, part); }
  SECTION("a pipe") { REQUIRE(::mkfifo(part.c_str(), 0666) == 0); }
  CHECK(send(file, to) == Uploaded::Sent);
  CHECK(read_file(precious) == "words");
  CHECK(read_file(to) == "content");
  CHECK_FALSE(fs::is_symlink(to));
  CHECK(fs::hard_link_count(to) == 1);
}
