#include "steps/transfer/local.h"

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMegabyte = size_t{1} << 20;  // what is copied at once

/// Sends a file to `to` and returns what happened.
Uploaded send(const fs::path& file, const fs::path& to) {
  const std::string content = read_file(file);
  return local_upload({.file = file,
                       .sha256 = sha256_hex(content),
                       .bytes = content.size(),
                       .address = parse_address("file://" + to.string()),
                       .progress = [](uint64_t) {}});
}

}  // namespace

TEST_CASE("a copy goes on where what is there agrees", "[local]") {
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

TEST_CASE("a stopped copy keeps what it has", "[local]") {
  const test::TempDir folder;
  const auto from = folder.write("from", std::string(3 * kMegabyte, 'x'));
  const fs::path to = folder.path() / "to";
  const auto stop = [](uint64_t bytes) {
    if (bytes == kMegabyte) throw Stopped{};
  };
  CHECK_THROWS_AS(copy_file(from, to, 0, stop), Stopped);
  CHECK(fs::file_size(to) == kMegabyte);
}

TEST_CASE("a file is sent once, and again when either side changed", "[local]") {
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
