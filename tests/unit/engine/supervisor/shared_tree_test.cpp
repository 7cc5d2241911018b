#include "engine/supervisor/shared_tree.h"

#include "base/file.h"
#include "engine/supervisor/open_folder.h"
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
  SECTION("to the top") {
    fs::create_symlink("../../x", tree / "a/b/link");
    take_tree(open_folder(tree), taken);
    CHECK(read_file(taken / "a/b/link") == "inside");
    CHECK(read_file(taken / "a/b/file") == "1");
    CHECK(read_file(taken / "x") == "inside");
  }
  SECTION("out of it") {
    fs::create_symlink("../../../x", tree / "a/b/link");
    CHECK_THROWS_WITH(take_tree(open_folder(tree), taken), Catch::Contains("link to ../../../x"));
  }
  SECTION("out of it, from the top") {
    fs::create_symlink("../x", tree / "link");
    CHECK_THROWS_WITH(take_tree(open_folder(tree), taken), Catch::Contains("link to ../x"));
  }
}
