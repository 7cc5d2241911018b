#include "engine/container/layer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "engine/container/tree.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/steps/stage/archives.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// A root file system that layers are put on.
class Root {
 public:
  ~Root() { remove_tree(root); }

  Root& add(std::initializer_list<test::TarEntry> entries) {
    apply_layer(*open_file(folder_.write("layer.tar", test::tar(entries))), root, 1000);
    return *this;
  }
  std::string content(const std::string& name) const { return read_file(root / name); }
  bool has(const std::string& name) const { return fs::exists(fs::symlink_status(root / name)); }
  std::string hash() const {
    return hash_tree(root, [](const fs::path& file) { return sha256_file(file); }).sha256;
  }

 private:
  test::TempDir folder_;

 public:
  const fs::path root = [this] {
    make_directories(folder_.path() / "root");
    return folder_.path() / "root";
  }();
};

}  // namespace

TEST_CASE("a layer replaces, adds and removes files of lower ones", "[container]") {
  Root root;
  root.add({{"etc/name", "old"}, {"etc/gone", "x"}, {"data/a", "1"}, {"data/b", "2"}});
  root.add({{"etc/name", "new"}, {"etc/.wh.gone", ""}, {"data/c", "3"}, {"data/.wh..wh..opq", ""}});
  CHECK(root.content("etc/name") == "new");
  CHECK_FALSE(root.has("etc/gone"));
  CHECK_FALSE(root.has("data/a"));
  CHECK_FALSE(root.has("data/b"));
  CHECK(root.content("data/c") == "3");
  CHECK_FALSE(root.has("etc/.wh.gone"));
}

TEST_CASE("files become read-only, and lose bits that grant rights", "[container]") {
  Root root;
  root.add({{.name = "bin/tool", .content = "x", .mode = 04755}});
  struct stat info {};
  REQUIRE(::stat((root.root / "bin/tool").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0555);
}

TEST_CASE("links lead to the same files as in the container", "[container]") {
  Root root;
  root.add({{"usr/lib/a", "A"}, {.name = "lib", .type = '2', .link_target = "/usr/lib"}});
  root.add({{"lib/b", "B"}, {.name = "hard", .type = '1', .link_target = "lib/a"}});
  CHECK(root.content("usr/lib/b") == "B");
  CHECK(root.content("hard") == "A");
}

TEST_CASE("no name and no link of a layer leads out of the image", "[container]") {
  Root root;
  const fs::path outside = root.root.parent_path() / "outside";
  make_directories(outside);
  root.add({{.name = "up", .type = '2', .link_target = "../outside"},
            {.name = "absolute", .type = '2', .link_target = outside.string()}});
  root.add({{"up/a", "x"}, {"absolute/b", "x"}, {"../../outside/c", "x"}, {"/outside/d", "x"}});
  CHECK(fs::is_empty(outside));
  CHECK(root.has("outside/a"));
  CHECK(root.has("outside/d"));
}

TEST_CASE("a layer removes names, not the targets of links", "[container]") {
  Root root;
  root.add({{"data/a", "x"}});
  const char* name = GENERATE(".wh.", ".wh..", ".wh...", "data/.wh.", "data/.wh..", "data/.wh...");
  CHECK_THROWS_WITH(root.add({{name, ""}}), Catch::Contains("which is not a valid name"));
  CHECK(root.content("data/a") == "x");
}

TEST_CASE("an opaque folder hides lower layers, but not its own", "[container]") {
  Root root;
  root.add({{"data/old", "1"}, {"data/both/old", "2"}});
  root.add({{"data/both/new", "3"}, {"data/made/deep/new", "4"}, {"data/.wh..wh..opq", ""}});
  CHECK_FALSE(root.has("data/old"));
  CHECK_FALSE(root.has("data/both/old"));
  CHECK(root.content("data/both/new") == "3");
  CHECK(root.content("data/made/deep/new") == "4");
}

TEST_CASE("mount points stay in an image whose folders are links to the outside", "[container]") {
  Root root;
  const fs::path outside = root.root.parent_path() / "outside";
  make_directories(outside);
  root.add({{.name = "etc", .type = '2', .link_target = outside.string()},
            {.name = outside.string() + "/", .type = '5'}});  // the container has one as well
  add_mount_points(root.root);
  CHECK(fs::is_empty(outside));
}

TEST_CASE("devices are left to the runtime", "[container]") {
  Root root;
  root.add({{.name = "dev/null", .type = '3'}, {"etc/x", "x"}});
  CHECK_FALSE(root.has("dev/null"));
  CHECK(root.has("etc/x"));
}

TEST_CASE("the hash of a tree covers names, contents and the permission to run", "[container]") {
  Root root;
  root.add({{"a", "1"}, {.name = "b", .content = "2", .mode = 0755}});
  const std::string before = root.hash();
  make_mount_point(root.root, "/mnt/data", MountPoint::Folder);
  CHECK(root.hash() == before);
  ::chmod((root.root / "a").c_str(), 0755);
  CHECK(root.hash() != before);
}

TEST_CASE("a tree that a program has written to has another state", "[container]") {
  Root root;
  root.add({{"a", "1"}, {.name = "b", .content = "2", .mode = 0755}});
  const std::string before = tree_state(root.root);
  make_mount_point(root.root, "/mnt/file", MountPoint::File);
  make_read_only(root.root);
  CHECK(tree_state(root.root) == before);
  struct stat info {};
  REQUIRE(::stat((root.root / "b").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0555);
  ::chmod(root.root.c_str(), 0755);
  ::chmod((root.root / "a").c_str(), 0644);
  SECTION("an additional file") { write_file_atomic(root.root / "c", "3"); }
  SECTION("a missing file") { fs::remove(root.root / "a"); }
  SECTION("a file that was changed in place") { std::ofstream(root.root / "a") << "2"; }
  SECTION("a link") { fs::create_symlink("a", root.root / "c"); }
  CHECK(tree_state(root.root) != before);
}

TEST_CASE("a folder that cannot be made read-only is an error", "[container]") {
  CHECK_THROWS_WITH(make_read_only("/proc/self/ns"),
                    Catch::StartsWith("cannot change the mode of /proc/self/ns"));
}

TEST_CASE("mount points are made in a read-only image, through its links", "[container]") {
  Root root;
  root.add({{"private/x", ""}, {.name = "var", .type = '2', .link_target = "private"}});
  make_read_only(root.root);
  make_mount_point(root.root, "/var/tmp/runs", MountPoint::Folder);
  make_mount_point(root.root, "/var/file", MountPoint::File);
  CHECK(fs::is_directory(root.root / "private/tmp/runs"));
  CHECK(fs::is_regular_file(root.root / "private/file"));
  struct stat info {};
  REQUIRE(::stat((root.root / "private").c_str(), &info) == 0);
  CHECK((info.st_mode & 0222) == 0);
}

TEST_CASE("a file in the way of a mount point is named", "[container]") {
  Root root;
  root.add({{"data", "a file"}});
  CHECK_THROWS_WITH(make_mount_point(root.root, "/data/set", MountPoint::Folder),
                    Catch::Contains("the image has no /data/set to bind that to"));
}

TEST_CASE("a layer with too many entries for its size is refused", "[container][attack]") {
  const test::TempDir folder;
  const auto apply = [&](std::initializer_list<test::TarEntry> entries, uint64_t max_entries) {
    return apply_layer(*open_file(folder.write("layer.tar", test::tar(entries))),
                       folder.path() / "root", max_entries);
  };
  make_directories(folder.path() / "root");
  CHECK(apply({{"a"}, {"b"}, {"c/d"}}, 3) == 3);
  CHECK_THROWS_WITH(apply({{"a"}, {"b"}, {"c/d"}}, 2), Catch::Contains("more than 2 entries"));
  // An entry eighteen folders down counts as three.
  CHECK(apply({{"1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/f"}}, 3) == 3);
  CHECK_THROWS_AS(apply({{"1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/f"}}, 2), Error);
  CHECK(max_unpacked_entries(7'000'000) < 1'000'000);  // empty files, well compressed
}

}  // namespace dlflow
