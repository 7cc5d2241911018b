#include "steps/stage/unpack.h"

#include <sys/stat.h>

#include <cstdlib>

#include "base/archive/byte_source.h"
#include "base/file.h"
#include "base/process.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"
#include "tests/support/zip_archive.h"
#include "tests/unit/steps/stage/archives.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Unpacks texts in a cache of its own.
class Sandbox {
 public:
  Sandbox() : cache_(folder_.path() / "cache", 0) {}

  Listing unpack(const std::string& packed, Unpack unpack, const UnpackLimits& limits = {}) {
    const auto file = folder_.write("packed", packed);
    return unpack_to_cache(file, sha256_hex(packed), unpack, cache_, limits);
  }

  std::string content(const Listing& listing, const std::string& name) {
    return read_file(cache_.find(listing.at(name).sha256).value());
  }

  const test::TempDir& folder() const { return folder_; }

 private:
  test::TempDir folder_;
  Cache cache_;
};

std::string pax(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

std::vector<std::string> names(const Listing& listing) {
  std::vector<std::string> result;
  for (const auto& [name, file] : listing) result.push_back(name);
  return result;
}

}  // namespace

TEST_CASE("a gzip file gives the content of all its members", "[unpack]") {
  Sandbox box;
  const std::string text(300'000, 'x');
  CHECK(box.content(box.unpack(test::gzip(text), Unpack::Gzip), "") == text);
  CHECK(box.content(box.unpack(test::gzip(""), Unpack::Gzip), "").empty());
  CHECK(box.content(box.unpack(test::gzip("a") + test::gzip("b"), Unpack::Gzip), "") == "ab");
  const std::string padded = test::gzip("a") + std::string(1000, '\0');
  CHECK(box.content(box.unpack(padded, Unpack::Gzip), "") == "a");
}

TEST_CASE("a gzip file is refused if it is cut or changed anywhere", "[unpack]") {
  Sandbox box;
  const std::string good = test::gzip("some text, some text, some other text");
  for (size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_WITH(box.unpack(good.substr(0, length), Unpack::Gzip), Contains("damaged"));
  }
  std::string changed = good;
  changed[good.size() - 5] ^= 1;  // the checksum
  CHECK_THROWS_WITH(box.unpack(changed, Unpack::Gzip), Contains("incorrect data check"));
  CHECK_THROWS_WITH(box.unpack(good + "more", Unpack::Gzip), Contains("damaged"));
  CHECK_THROWS_WITH(box.unpack(good + std::string(9, '\0') + "x", Unpack::Gzip),
                    Contains("followed by other data"));
  CHECK_THROWS_WITH(box.unpack("no gzip", Unpack::Gzip), Contains("incorrect header check"));
}

TEST_CASE("a tar archive gives its files, folders by their names", "[unpack]") {
  Sandbox box;
  const std::string long_name = std::string(120, 'd') + "/" + std::string(120, 'f');
  const std::string archive = test::tar({
      {.name = "./", .type = '5', .mode = 0755},
      {.name = "./a//b.txt", .content = "B"},
      {.name = "empty", .content = ""},
      {.name = "run.sh", .content = std::string(600, '#'), .mode = 0755},
      {.name = "name", .content = "P", .prefix = "deep/path"},
      {.name = "same", .type = '1', .link_target = "./a/b.txt"},
      {.name = "././@LongLink", .content = long_name + '\0', .type = 'L'},
      {.name = "cut off", .content = "L"},
      {.name = "pax",
       .content = pax("path", "größe/" + long_name) + pax("mtime", "1.5"),
       .type = 'x'},
      {.name = "cut off, too", .content = "X"},
      {.name = "global", .content = pax("comment", "git"), .type = 'g'},
      {.name = "last", .content = std::string(512, 'l'), .type = '\0'},
  });
  const Listing listing = box.unpack(archive, Unpack::Tar);
  CHECK(names(listing) == std::vector<std::string>{"a/b.txt", long_name, "deep/path/name", "empty",
                                                   "größe/" + long_name, "last", "run.sh", "same"});
  CHECK(box.content(listing, "a/b.txt") == "B");
  CHECK(box.content(listing, "same") == "B");
  CHECK(box.content(listing, "deep/path/name") == "P");
  CHECK(box.content(listing, long_name) == "L");
  CHECK(box.content(listing, "größe/" + long_name) == "X");
  CHECK(box.content(listing, "last") == std::string(512, 'l'));
  CHECK(listing.at("run.sh").executable);
  CHECK_FALSE(listing.at("last").executable);

  CHECK(box.unpack(test::gzip(archive), Unpack::Tar) == listing);
}

TEST_CASE("each format that tar(1) writes is read", "[unpack]") {
  Sandbox box;
  const std::string name = std::string(90, 'a') + "/" + std::string(130, 'b');
  box.folder().write("in/" + name, "content");
  box.folder().write("in/plain", std::string(70'000, 'p'));
  fs::create_symlink("plain", box.folder().path() / "in/link");
  for (const std::string format : {"gnu", "pax", "posix"}) {
    const fs::path out = box.folder().path() / "out.tar";
    const std::string command = "tar --format=" + format + " -C " +
                                (box.folder().path() / "in").string() + " -cf " + out.string() +
                                " .";
    REQUIRE(std::system(command.c_str()) == 0);
    const Listing listing = box.unpack(read_file(out), Unpack::Tar);
    CHECK(names(listing) == std::vector<std::string>{name, "link", "plain"});
    CHECK(listing.at("link").link_target == "plain");
    CHECK(box.content(listing, name) == "content");
  }
}

TEST_CASE("a tar archive with another compression is unpacked by the system's tools", "[unpack]") {
  Sandbox box;
  const fs::path plain = box.folder().write(
      "plain.tar", test::tar({{.name = "a", .content = std::string(300'000, 'a')}}));
  for (const std::string tool : {"xz", "bzip2", "zstd"}) {
    if (!find_program(tool, std::getenv("PATH"))) {
      test::skip(tool + " is not there");
      continue;
    }
    CAPTURE(tool);
    const fs::path file = box.folder().path() / "packed.tar";
    REQUIRE(std::system((tool + " -cq < " + plain.string() + " > " + file.string()).c_str()) == 0);
    const std::string packed = read_file(file);
    CHECK(box.content(box.unpack(packed, Unpack::Tar), "a") == std::string(300'000, 'a'));
    CHECK_THROWS_WITH(box.unpack(packed.substr(0, packed.size() - 6), Unpack::Tar),
                      Contains("it is damaged, or made by another version of " + tool + ": "));
    std::string changed = packed;
    changed[packed.size() / 2] ^= 1;
    CHECK_THROWS_WITH(box.unpack(changed, Unpack::Tar), Contains("damaged"));
    CHECK_THROWS_WITH(box.unpack(packed, Unpack::Gzip),
                      Contains("it is compressed by " + tool + " and not by gzip"));
    UnpackLimits small;
    small.max_ratio = 1;
    small.free_bytes = 200'000;
    CHECK_THROWS_WITH(box.unpack(packed, Unpack::Tar, small), Contains("suspicious for its size"));
  }
}

TEST_CASE("a compressed tar archive without its program is refused with what to do", "[unpack]") {
  Sandbox box;
  const test::Variable path("PATH", box.folder().path());
  CHECK_THROWS_WITH(
      box.unpack(std::string("\xFD"
                             "7zXZ\0",
                             6),
                 Unpack::Tar),
      "it is compressed by xz, and there is no program 'xz' in PATH; install it, or compress the "
      "archive with gzip");
}

TEST_CASE("a tar entry that could do harm is refused by its name", "[unpack]") {
  Sandbox box;
  struct Case {
    test::TarEntry entry;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{.name = "../evil"}, "'../evil' leads out of"},
      {{.name = "a/../../evil"}, "leads out of"},
      {{.name = "a/.."}, "leads out of"},
      {{.name = "..", .type = '5'}, "leads out of"},
      {{.name = "/etc/passwd"}, "has an absolute name"},
      {{.name = "/", .type = '5'}, "has an absolute name"},
      {{.name = "evil", .prefix = "/etc"}, "has an absolute name"},
      {{.name = "x", .content = pax("path", "../../evil"), .type = 'x'}, "leads out of"},
      {{.name = "x", .content = pax("path", std::string("f\0x", 3)), .type = 'x'},
       "has a zero byte"},
      {{.name = "x", .content = pax("linkpath", std::string("f\0x", 3)), .type = 'x'},
       "has a zero byte"},
      {{.name = "."}, "has no usable name"},
      {{.name = "\xff"}, "not UTF-8"},
      {{.name = "l", .type = '2', .link_target = "/etc/passwd"},
       "link to '/etc/passwd', which is no"},
      {{.name = "l", .type = '2', .link_target = "../x"}, "which is not a file or folder"},
      {{.name = "l", .type = '2', .link_target = "none"}, "which is not a file or folder"},
      {{.name = "l", .type = '2', .link_target = "l"}, "which is not a file or folder"},
      {{.name = "l", .type = '2', .link_target = "d/../f"}, "which is not a file or folder"},
      {{.name = "l", .type = '2'}, "is a link to nothing"},
      {{.name = "l", .type = '1', .link_target = "/etc/passwd"}, "which is not an earlier file"},
      {{.name = "l", .type = '1', .link_target = "later"}, "which is not an earlier file"},
      {{.name = "null", .type = '3'}, "is a device or a pipe"},
      {{.name = "disk", .type = '4'}, "is a device or a pipe"},
      {{.name = "pipe", .type = '6'}, "is a device or a pipe"},
      {{.name = "holes", .type = 'S'}, "a sparse file"},
      {{.name = "su", .mode = 04755}, "set-user-id"},
      {{.name = "sg", .mode = 02755}, "set-user-id or set-group-id"},
      {{.name = "f/below"}, "'f' is both a folder and another entry"},
      {{.name = std::string(90, 'n') + "/", .content = "", .type = '0', .prefix = ".."},
       "leads out of"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.entry.name, bad.entry.type);
    const std::string archive = test::tar({{.name = "f", .content = "F"},
                                           {.name = "d/f", .content = "D"},
                                           bad.entry,
                                           {.name = "later", .content = ""}});
    CHECK_THROWS_WITH(box.unpack(archive, Unpack::Tar), Contains(bad.message));
  }
}

TEST_CASE("a link inside the archive is kept, and nothing is written through it", "[unpack]") {
  Sandbox box;
  const Listing listing =
      box.unpack(test::tar({{.name = "d/e/f", .content = "F"},
                            {.name = "d/up", .type = '2', .link_target = "../d/e/f"},
                            {.name = "folder", .type = '2', .link_target = "d"},
                            {.name = "d/top", .type = '2', .link_target = ".."}}),
                 Unpack::Tar);
  CHECK(listing.at("d/up").link_target == "../d/e/f");
  CHECK_THROWS_WITH(box.unpack(test::tar({{.name = "d/f", .content = "F"},
                                          {.name = "l", .type = '2', .link_target = "d"},
                                          {.name = "l/through", .content = "x"}}),
                               Unpack::Tar),
                    Contains("'l' is both a folder and another entry"));
  CHECK_THROWS_WITH(box.unpack(test::tar({{.name = "d/f", .content = "F"},
                                          {.name = "a", .type = '2', .link_target = "d"},
                                          {.name = "b", .type = '2', .link_target = "a"}}),
                               Unpack::Tar),
                    Contains("link to 'a', which is not a file or folder"));
}

TEST_CASE("a tar archive is refused if it is cut anywhere", "[unpack]") {
  Sandbox box;
  const std::string good =
      test::tar({{.name = "a", .content = std::string(700, 'a')}, {.name = "b"}});
  for (const size_t length : {0, 1, 511, 513, 1023, 1535, 1537}) {
    CAPTURE(length);
    CHECK_THROWS_WITH(box.unpack(good.substr(0, length), Unpack::Tar), Contains("damaged"));
  }
  std::string changed = good;
  changed[2] = 'x';
  CHECK_THROWS_WITH(box.unpack(changed, Unpack::Tar), Contains("a header's checksum is wrong"));
  CHECK_THROWS_WITH(box.unpack(std::string(2048, 'x'), Unpack::Tar), Contains("damaged"));
  const std::string packed = test::gzip(good);
  CHECK_THROWS_WITH(box.unpack(packed.substr(0, packed.size() - 3), Unpack::Tar),
                    Contains("damaged"));
  for (const std::string& bad :
       {std::string("5 path=x\n"), std::string("x"), std::string("7 pathx\n"),
        std::string("99999999999999999999 a=b\n")}) {
    CHECK_THROWS_WITH(
        box.unpack(test::tar({{.name = "p", .content = bad, .type = 'x'}, {.name = "f"}}),
                   Unpack::Tar),
        Contains("a pax"));
  }
}

TEST_CASE("a zip archive gives its files, and refuses what could do harm", "[unpack]") {
  Sandbox box;
  const fs::path zip = box.folder().path() / "a.zip";
  test::write_zip(zip, {{"d/", "", S_IFDIR | 0755},
                        {"d/f.txt", std::string(100'000, 'f')},
                        {"run", "#!", S_IFREG | 0755},
                        {"link", "d/f.txt", S_IFLNK | 0777},
                        {"empty", ""}});
  const Listing listing = box.unpack(read_file(zip), Unpack::Zip);
  CHECK(names(listing) == std::vector<std::string>{"d/f.txt", "empty", "link", "run"});
  CHECK(box.content(listing, "d/f.txt") == std::string(100'000, 'f'));
  CHECK(listing.at("run").executable);
  CHECK(listing.at("link").link_target == "d/f.txt");

  const auto refuse = [&](const test::Packed& entry, const std::string& message) {
    fs::remove(zip);
    test::write_zip(zip, {{"first", "x"}, entry});
    CHECK_THROWS_WITH(box.unpack(read_file(zip), Unpack::Zip), Contains(message));
  };
  refuse({"../evil", ""}, "leads out of");
  refuse({"/etc/evil", ""}, "has an absolute name");
  refuse({"link", "../../etc", S_IFLNK | 0777}, "which is not a file or folder");
  refuse({"device", "", S_IFCHR | 0644}, "not a file, folder or link");
  refuse({"su", "", S_IFREG | 04755}, "set-user-id");
}

TEST_CASE("a damaged zip archive is refused", "[unpack]") {
  Sandbox box;
  const fs::path zip = box.folder().path() / "a.zip";
  test::write_zip(zip, {{"f", std::string(1000, 'f')}});
  const std::string good = read_file(zip);
  for (size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(box.unpack(good.substr(0, length), Unpack::Zip), Error);
  }
  std::string changed = good;
  changed[33] ^= 1;  // in the packed content
  CHECK_THROWS_WITH(box.unpack(changed, Unpack::Zip), Contains("damaged"));
  changed = good;
  changed[good.find("PK\x01\x02") + 8] |= 1;
  CHECK_THROWS_WITH(box.unpack(changed, Unpack::Zip), Contains("encrypted"));
}

TEST_CASE("an archive that unpacks to far more than its size is refused", "[unpack]") {
  Sandbox box;
  const std::string zeros(10'000'000, '\0');
  const UnpackLimits by_ratio{.max_ratio = 200, .free_bytes = 1000};
  CHECK_THROWS_WITH(box.unpack(test::gzip(zeros), Unpack::Gzip, by_ratio), Contains("suspicious"));
  CHECK_THROWS_WITH(
      box.unpack(test::gzip(test::tar({{.name = "z", .content = zeros}})), Unpack::Tar, by_ratio),
      Contains("suspicious"));
  CHECK_THROWS_WITH(box.unpack(test::gzip("12345"), Unpack::Gzip, {.max_bytes = 4}),
                    Contains("unpacks to more than 4 B"));
  CHECK(box.unpack(test::gzip("1234"), Unpack::Gzip, {.max_bytes = 4}).at("").bytes == 4);
  CHECK_THROWS_WITH(
      box.unpack(test::tar({{.name = "a"}, {.name = "b"}}), Unpack::Tar, {.max_entries = 1}),
      Contains("more than 1 entries"));
}

TEST_CASE("several sources can share one limit of bytes", "[unpack]") {
  const test::TempDir folder;
  const fs::path file = folder.write("packed.gz", test::gzip("1234"));
  ByteBudget budget{.max_bytes = 9};
  const auto read_next = [&] {
    char buffer[16];
    return limit_bytes(open_gzip(file), budget, "the image")->read(buffer);
  };
  CHECK(read_next() == 4);
  CHECK(read_next() == 4);
  CHECK_THROWS_WITH(read_next(), Contains("the image unpacks to more than 9 B"));
}

TEST_CASE("the list of unpacked files is remembered by hash and kind", "[unpack]") {
  const test::TempDir folder;
  Cache cache(folder.path() / "cache", 0);
  const std::string packed = test::gzip(test::tar({{.name = "a/b", .content = "B"}}));
  const std::string hash = sha256_hex(packed);
  CHECK_FALSE(remembered_listing(hash, Unpack::Tar, cache).has_value());
  const Listing listing = unpack_to_cache(folder.write("p", packed), hash, Unpack::Tar, cache);
  CHECK(remembered_listing(hash, Unpack::Tar, cache) == listing);
  CHECK_FALSE(remembered_listing(hash, Unpack::Gzip, cache).has_value());
}

TEST_CASE("the hash of a listing is that of sha256sum's output", "[unpack]") {
  Listing listing;
  listing["b"].sha256 = sha256_hex("B");
  listing["a"].sha256 = sha256_hex("A");
  listing["c"].link_target = "a";
  CHECK(hash_of(listing) ==
        sha256_hex(sha256_hex("A") + "  a\n" + sha256_hex("B") + "  b\n-> a  c\n"));
}
