#include "engine/supervisor/shared_tree.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("a link of a shared tree may lead up to the top of the tree and no further",
          "[shared_results][attack]") {
  const test::TempDir folder;
  folder.write("tree/x", "inside");
  folder.write("x", "outside");
  folder.write("tree/a/b/file", "1");
  const fs::path tree = folder.path() / "tree";
  const fs::path taken = folder.path() / "taken";
  TreeRoom room{.bytes = 1000};
  SECTION("to the top") {
    fs::create_symlink("../../x", tree / "a/b/link");
    take_tree(open_folder(tree), taken, room);
    CHECK(read_file(taken / "a/b/link") == "inside");
    CHECK(read_file(taken / "a/b/file") == "1");
    CHECK(read_file(taken / "x") == "inside");
  }
  SECTION("out of it") {
    fs::create_symlink("../../../x", tree / "a/b/link");
    CHECK_THROWS_WITH(take_tree(open_folder(tree), taken, room),
                      Catch::Contains("link to ../../../x"));
  }
  SECTION("out of it, from the top") {
    fs::create_symlink("../x", tree / "link");
    CHECK_THROWS_WITH(take_tree(open_folder(tree), taken, room), Catch::Contains("link to ../x"));
  }
}

TEST_CASE("an oversized shared tree is refused before it is read", "[shared_results][attack]") {
  const test::TempDir folder;
  folder.write("tree/small", "12345");
  folder.write("tree/a/huge", "");
  fs::resize_file(folder.path() / "tree/a/huge", uint64_t{1} << 40);  // a sparse file
  TreeRoom room{.bytes = 1000};
  CHECK_THROWS_WITH(take_tree(open_folder(folder.path() / "tree"), folder.path() / "taken", room),
                    Catch::Contains("a shared result has 1.0 TiB, but there is room for only "));
  CHECK_FALSE(fs::exists(folder.path() / "taken/a/huge"));

  fs::remove(folder.path() / "tree/a/huge");
  TreeRoom few{.bytes = 1000, .entries = 1};
  CHECK_THROWS_WITH(take_tree(open_folder(folder.path() / "tree"), folder.path() / "few", few),
                    Catch::Contains("a shared result has too many files"));
}
