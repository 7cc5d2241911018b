#include "engine/plan/data_identity.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/file_identity.h"
#include "base/sha256.h"
#include "base/url.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("a file is identified by its content and its permission to run", "[data_identity]") {
  const test::TempDir folder;
  const fs::path file = folder.write("tool", "content");
  FreshFileHashes hashes;
  CHECK_FALSE(is_executable(file));
  CHECK(content_of(file, hashes) == sha256_hex("content"));
  fs::permissions(file, fs::perms::group_exec, fs::perm_options::add);
  CHECK(content_of(file, hashes) == sha256_hex("content"));
  fs::permissions(file, fs::perms::owner_exec, fs::perm_options::add);
  CHECK(content_of(file, hashes) == sha256_hex("content") + " executable");
  CHECK_FALSE(is_executable(folder.path() / "none"));
}

TEST_CASE("a second change is seen once the clock of the file system has ticked",
          "[data_identity]") {
  using namespace std::chrono;
  const auto now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
  const auto second = duration_cast<seconds>(now);
  const auto left = [](nanoseconds changed) {
    return time_to_settle({.size = 1, .mtime_ns = 0, .ctime_ns = changed.count(), .inode = 1});
  };
  CHECK(left(second) > 0s);  // a clock of whole seconds
  CHECK(left(second) <= 2s);
  CHECK(left(second + 3600s) == 2s);  // the clock of another host
  CHECK(left(second - 3s) == 0s);
  const nanoseconds exact = now + (now.count() % 1'000'000'000 == 0 ? 1ns : 0ns);
  CHECK(left(exact) <= 10ms);
  CHECK(left(exact - 1s) == 0s);
  CHECK(is_settled({.size = 1, .mtime_ns = 0, .ctime_ns = (now - 3s).count(), .inode = 1}));
  CHECK_FALSE(is_settled({.size = 1, .mtime_ns = 0, .ctime_ns = (now - 1s).count(), .inode = 1}));

  const test::TempDir folder;
  const std::string file = folder.write("x", "one");
  const std::string settled = settled_identity(file);
  CHECK(settled == data_identity(file));
  std::ofstream(file) << "two";  // in place
  CHECK(data_identity(file) != settled);
}

TEST_CASE("data has its empty folders, as classes without a picture", "[data_identity]") {
  const test::TempDir folder;
  folder.write("data/cat/1", "x");
  const std::string place = folder.path() / "data";
  const auto base = [&] { return test::step_base("run: ls, inputs: [{path: " + place + "}]"); };
  const std::string identity = data_identity(place);
  const std::string content = base();
  fs::create_directories(folder.path() / "data/dog");
  CHECK(data_at(place).others == std::vector<std::string>{"dog/"});
  CHECK(data_identity(place) != identity);
  CHECK(base() != content);
  folder.write("data/dog/1", "x");
  CHECK(data_at(place).others.empty());
}

TEST_CASE("an existing place has one identity under every spelling of its address",
          "[data_identity]") {
  const test::TempDir folder;
  const fs::path data = folder.path() / "my data";
  folder.write("my data/x", "1");
  const std::string encoded = percent_encoded(data.string());
  const std::string host = GENERATE(as<std::string>(), "", "localhost");
  const std::string slash = GENERATE(as<std::string>(), "", "/");
  const std::string place = "file://" + host + encoded + slash;
  const std::string identity = data_identity(place);
  CHECK(identity == data_identity(data.string()));
  fs::create_directories(data / "empty");
  CHECK(data_identity(place) != identity);
  fs::remove_all(data / "empty");
  fs::remove(data / "x");
  CHECK_FALSE(data_identity(place).empty());
  fs::remove(data);
  CHECK(data_identity(place).empty());
}

TEST_CASE("an address with a pattern stands for the matching files", "[data_identity]") {
  const test::TempDir folder;
  folder.write("x.csv", "1");
  const std::string place = "file://" + folder.path().string() + "/*.csv";
  const std::string identity = data_identity(place);
  folder.write("x.txt", "1");
  CHECK(data_identity(place) == identity);
  folder.write("y.csv", "1");
  CHECK(data_identity(place) != identity);
}

TEST_CASE("a source that cannot be listed has another identity each time", "[data_identity]") {
  const test::TempDir folder;
  fs::create_directory_symlink(".", folder.path() / "loop");  // root may read everything else
  const std::string place = folder.path().string();
  CHECK(data_identity(place) != data_identity(place));
  CHECK_FALSE(data_identity("file://" + place).empty());
}

TEST_CASE("a changed link on the way to data changes the fingerprint, whatever its target",
          "[data_identity]") {
  const test::TempDir folder;
  folder.write("one/x", "1");
  fs::create_hard_link(folder.path() / "one/x", folder.path() / "same");
  const fs::path link = folder.path() / "link";
  const auto way = [&] { return way_identity(link.string()); };
  fs::create_symlink("one/x", link);
  const std::string before = way();
  CHECK(way() == before);
  fs::remove(link);
  fs::create_symlink("same", link);
  CHECK(way() != before);
}

TEST_CASE("a write into a file leaves the identity of its path unchanged", "[data_identity]") {
  const test::TempDir folder;
  const fs::path file = folder.write("data/x", "1");
  const std::string place = (folder.path() / "data").string();
  const std::string before = way_identity(place);
  std::ofstream(file) << "longer";
  CHECK(way_identity(place) == before);
  folder.write("data/y", "1");
  CHECK(way_identity(place) != before);
}

TEST_CASE("one name with a line end differs from two names", "[data_identity]") {
  const test::TempDir folder;
  const std::string place = folder.path() / "data";
  const auto base = [&] { return test::step_base("run: ls, inputs: [{path: " + place + "}]"); };
  folder.write("data/a", "x");
  folder.write("data/b", "x");
  const std::string two = base();
  fs::remove_all(place);
  folder.write("data/a " + sha256_hex("x") + "\nb", "x");
  CHECK(base() != two);
}

TEST_CASE("an input that becomes executable changes the fingerprint", "[data_identity]") {
  const test::TempDir folder;
  const fs::path tool = folder.write("tool", "content");
  const std::string inputs =
      GENERATE(false, true) ? "[tool]" : "[{path: " + tool.string() + ", hash: content}]";
  const auto base = [&] { return test::step_base("run: ls, inputs: " + inputs, folder.path()); };
  const std::string before = base();
  CHECK(base() == before);
  fs::permissions(tool, fs::perms::owner_exec, fs::perm_options::add);
  CHECK(base() != before);
}

TEST_CASE("data includes its dangling links, whether it is identified by content or by state",
          "[data_identity]") {
  test::TempDir folder;
  const std::string place = (folder.path() / "data").string();
  folder.write("data/x", "1");
  const auto base = [&] {
    return test::step_base("run: x, inputs: [{path: " + place + ", hash: content}]");
  };
  const auto both = [&] { return std::pair(base(), data_identity(place)); };
  const auto none = both();
  fs::create_symlink("nowhere", folder.path() / "data/link");
  const auto one = both();
  CHECK(one.first != none.first);
  CHECK(one.second != none.second);
  CHECK(both() == one);
  fs::remove(folder.path() / "data/link");
  fs::create_symlink("elsewhere", folder.path() / "data/link");
  CHECK(both().first != one.first);
  CHECK(both().second != one.second);
}
