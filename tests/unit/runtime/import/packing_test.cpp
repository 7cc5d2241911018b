#include "runtime/import/packing.h"

#include "base/file.h"
#include "runtime/data/split_files.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Names = std::vector<std::string>;

Packing packing_of(const std::filesystem::path& source, const std::filesystem::path& output,
                   TableColumns columns, Split split = Split::Train) {
  Packing packing;
  packing.source = source;
  packing.output = output;
  packing.split = split;
  packing.import.columns = std::move(columns);
  return packing;
}

}  // namespace

TEST_CASE("a second split takes features and codings of the training split", "[packing]") {
  const test::TempDir folder;
  const auto train = folder.write("train.csv", "town,a,y\nUlm,1,2\nBonn,,3\nUlm,4,5\n");
  const auto test = folder.write("test.csv", "y,more,a,town\n1,x,,Rom\n2,x,3,Bonn\n");
  const auto set = folder.path() / "set";
  TableColumns columns = {{"town", "a"}, {"y"}, ""};
  columns.categories = {"town"};
  columns.missing = Missing::Mean;
  pack(packing_of(train, set, columns));
  CHECK(read_file(set / "columns.txt") ==
        "feature town {\"empty\":0.0,\"one_hot\":[\"Bonn\",\"Ulm\"]}\n"
        "feature a {\"empty\":2.5}\ntarget y\n");
  const PackedSplits packed = pack(packing_of(test, set, {{}, {"y"}, ""}, Split::Test));
  CHECK(packed.notes.size() == 2);
  const Dataset data = open_dataset(set, Split::Test);
  CHECK(data == make_dataset({3, 1, 1}, std::vector<float>{0, 0, 2.5f, 1, 0, 3}, {1, 2}, 1));
  CHECK_THAT(test::error_of([&] {
               const auto other = folder.write("other.csv", "a,y\n1,2\n");
               pack(packing_of(other, set, {{"a"}, {"y"}, ""}, Split::Validation));
             }),
             Catch::Contains("columns.txt has the columns feature town, ") &&
                 Catch::EndsWith("--features and --target, or --resize and --crop"));
}

TEST_CASE("codings are not taken from a test table", "[packing]") {
  const test::TempDir folder;
  const auto table = folder.write("t.csv", "town,y\nUlm,2\n");
  TableColumns columns = {{}, {"y"}, ""};
  columns.categories = {"town"};
  CHECK_THAT(
      test::error_of([&] { pack(packing_of(table, folder.path() / "set", columns, Split::Test)); }),
      Catch::Contains("pack the training split first"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "set"));
}

TEST_CASE("a class that a part lacks causes a note, and parts repeat", "[packing]") {
  const test::TempDir folder;
  std::string content = "x,y\n";
  for (int row = 0; row < 40; ++row) content += std::to_string(row) + ",common\n";
  const auto table = folder.write("t.csv", content + "40,rare\n41,sparse\n");
  Packing packing = packing_of(table, folder.path() / "set", {{}, {}, "y"});
  packing.shares.test = 0.2;
  const PackedSplits packed = pack(packing);
  REQUIRE(packed.splits.size() == 2);
  const Dataset train = open_dataset(packing.output, Split::Train);
  const Dataset test = open_dataset(packing.output, Split::Test);
  CHECK(train.num_classes == 3);
  CHECK(test.num_classes == 3);
  CHECK(train.size() + test.size() == 42);
  REQUIRE(packed.notes.size() == 1);
  CHECK(packed.notes[0] ==
        "the test split has no sample of the class 'rare' and 1 more; add samples, or choose "
        "another share");
  packing.output = folder.path() / "again";
  pack(packing);
  CHECK(open_dataset(packing.output, Split::Test) == test);
}

TEST_CASE("a split is written once", "[packing]") {
  const test::TempDir folder;
  const auto table = folder.write("t.csv", "x,y\n1,2\n3,4\n");
  Packing packing = packing_of(table, folder.path() / "set", {{}, {"y"}, ""});
  CHECK_NOTHROW(require_new_splits(packing));
  packing.shards = 2;
  const PackedSplits packed = pack(packing);
  CHECK(packed.splits[0].file == packing.output / "train.shards.json");
  CHECK(packed.splits[0].files.size() == 3);
  CHECK_THAT(
      test::error_of([&] { require_new_splits(packing); }),
      Catch::EndsWith("train.shards.json already exists; remove it, or choose another folder"));
  packing.shares = {0.5, 0.5};
  CHECK_THROWS_WITH(require_new_splits(packing),
                    "--test-share and --validation-share leave no samples for training");
}

TEST_CASE("a split may lack classes of another, but has no others", "[packing]") {
  const test::TempDir folder;
  const auto set = folder.path() / "set";
  pack(packing_of(folder.write("train.csv", "y,x\na,1\nrare,2\nz,3\n"), set, {{}, {}, "y"}));
  pack(packing_of(folder.write("test.csv", "y,x\nz,1\na,2\n"), set, {{}, {}, "y"}, Split::Test));
  CHECK(open_dataset(set, Split::Test).labels.copy() == std::vector<uint32_t>{2, 0});
  CHECK_THAT(
      test::error_of([&] {
        pack(packing_of(folder.write("new.csv", "y,x\nnew,1\n"), set, {{}, {}, "y"},
                        Split::Validation));
      }),
      Catch::EndsWith("has the classes a, rare, z, but the source has new; give both splits the "
                      "same classes"));
}
