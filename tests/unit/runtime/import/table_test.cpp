#include "runtime/import/table.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

const TableColumns kTarget = {{}, {"y"}, ""}, kClass = {{}, {}, "y"};

std::string table_error(const std::string& content, const TableColumns& columns) {
  return test::error_of([&] { parse_table(content, "t.csv", columns); });
}

}  // namespace

TEST_CASE("a table has features and targets in the order of their names", "[table]") {
  const Table table = parse_table("a,y,b\n1,2,3\n-4.5,+5e1,6\n", "t", kTarget);
  CHECK(table.features == std::vector<Feature>{{"a"}, {"b"}});
  CHECK(table.targets == std::vector<std::string>{"y"});
  CHECK(table.dataset == make_dataset({2, 1, 1}, std::vector<float>{1, 3, -4.5f, 6}, {2, 50}, 1));
  const Table chosen = parse_table("a,y,b\n1,2,3\n", "t", {{"b"}, {"a", "y"}, ""});
  CHECK(chosen.dataset == make_dataset({1, 1, 1}, std::vector<float>{3}, {1, 2}, 2));
}

TEST_CASE("classes are numbered by name, or by number", "[table]") {
  const Table names = parse_table("x,y\n1,dog\n2, cat \n3,dog\n", "t", kClass);
  CHECK(names.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(names.dataset == make_dataset({1, 1, 1}, 2, std::vector<float>{1, 2, 3}, {1, 0, 1}));
  const Table numbers = parse_table("x,y\n1,10\n2,9\n3,-1\n", "t", kClass);
  CHECK(numbers.classes == std::vector<std::string>{"-1", "9", "10"});
  CHECK(numbers.dataset.labels.copy() == std::vector<uint32_t>{2, 1, 0});
}

TEST_CASE("quotes, line ends, empty lines and a byte order mark are read as in RFC 4180",
          "[table]") {
  const Table table =
      parse_table("\xEF\xBB\xBF\"a, \"\"b\"\"\",y\r\n\r\n\"1\",2\r\n3,\"4\"", "t", kTarget);
  CHECK(table.features == std::vector<Feature>{{"a, \"b\""}});
  CHECK(table.dataset == make_dataset({1, 1, 1}, std::vector<float>{1, 3}, {2, 4}, 1));
  const Table returns = parse_table("x,y\r1,2\r\r3,\"4\"\r", "t", kTarget);  // without line feeds
  CHECK(returns.targets == std::vector<std::string>{"y"});
  CHECK(returns.dataset == make_dataset({1, 1, 1}, std::vector<float>{1, 3}, {2, 4}, 1));
  CHECK(parse_table("x\ty\n1\t2\n", "t", kTarget, '\t').dataset.size() == 1);
  CHECK(table_error("\xEF\xBB\xBFx,\n", kTarget).starts_with("t.csv:1:3: "));
}

TEST_CASE("every mistake in a table is reported with line and column", "[table]") {
  CHECK(table_error("x,y\n1,2\nü,3\n4,\n5\n6,nan\n1e99,7\n\"7,8\n", kTarget) ==
        "t.csv:3:1: 'ü' is not a number (column 'x')\n"
        "t.csv:5:1: the row has 1 values, but the header has 2 columns\n"
        "t.csv:7:1: '1e99' does not fit into single precision (column 'x')\n"
        "t.csv:8:1: the quote that begins here is not closed\n"
        "t.csv:4:3: is empty (column 'y', and 1 more); write a number, or choose --missing drop");
  CHECK(table_error("x,y\n1,2\n\"ü\",\n", kTarget) ==
        "t.csv:3:1: 'ü' is not a number (column 'x')\n"
        "t.csv:3:5: is empty (column 'y'); write a number, or choose --missing drop");
  CHECK(table_error("x,\"y\n1,2\n", kTarget) ==
        "t.csv:1:3: the quote that begins here is not closed");
  std::string many = "x,y\n";
  for (int i = 0; i < 30; ++i) many += "1,no\n";
  CHECK_THAT(table_error(many + "no,1\n", {{}, {}, "y"}),
             Catch::EndsWith("'no' is not a number (column 'x')"));
  CHECK(table_error(many, kTarget) ==
        "t.csv:2:3: 'no' is not a number (column 'y'); for classes write --class y");
  CHECK_THAT(table_error("x,y\n1,1\n" + many.substr(4), kTarget),
             Catch::EndsWith("t.csv:22:3: 'no' is not a number (column "
                             "'y')\nand 10 more"));
  for (const char* lines : {"x,y\r\r1,no\r", "x,y\r\n\r\n1,no", "x,y\r\r\n1,no", "x,y\n\r1,no"}) {
    CHECK_THAT(table_error(lines, kTarget), Catch::StartsWith("t.csv:3:3: 'no' is not a number"));
  }
  CHECK(table_error("x,y\n1,\n", kClass) ==
        "t.csv:2:3: is empty (column 'y'); write the name of a class, or choose --missing drop");
  CHECK_THAT(table_error("x,y\n1,\"a\nb\"\n", kClass), Catch::Contains("has control characters"));
}

TEST_CASE("unknown columns of a table are reported with the known ones", "[table]") {
  CHECK(table_error("", kTarget) == "t.csv: is empty");
  CHECK(table_error("price,size\n", {{}, {"prise"}, ""}) ==
        "t.csv has no column 'prise'; it has price, size; did you mean 'price'?");
  CHECK_THAT(table_error("a,b\n", {}), Catch::Contains("name what to learn, with --target") &&
                                           Catch::EndsWith("its columns are a, b"));
  CHECK_THAT(table_error("a,b\n", {{}, {"a"}, "b"}), Catch::Contains("--class COLUMN, not both"));
  CHECK_THAT(table_error("a;b\n1;2\n", kTarget),
             Catch::Contains("separated by ';'; write tabs: tr ';' '\\t' < "));
  CHECK(parse_table("a,b,c\n1,2,3\n", "t", {{}, {"c,a"}, ""}).targets ==
        std::vector<std::string>{"c", "a"});
  CHECK(parse_table("\"c,a\",b\n1,2\n", "t", {{}, {"c,a"}, ""}).targets ==
        std::vector<std::string>{"c,a"});
  CHECK_THAT(table_error("a,b\n", {{"a"}, {"a"}, ""}), Catch::Contains("'a' is named twice"));
  CHECK_THAT(table_error("a\n1\n", {{}, {"a"}, ""}), Catch::Contains("no column is left"));
  CHECK_THAT(table_error("a,,b\n", kTarget), Catch::StartsWith("t.csv:1:3: the first line names"));
}

TEST_CASE("cells without a value are refused, with the first place and the count of a column",
          "[table]") {
  CHECK(table_error("a,b,y\n1,2,3\n,NA,4\n,5,?\n", kTarget) ==
        "t.csv:3:1: is empty (column 'a', and 1 more); write a number, or choose --missing mean or "
        "drop\n"
        "t.csv:3:2: 'NA' is not a number (column 'b'); write a number, or choose --missing mean or "
        "drop\n"
        "t.csv:4:4: '?' is not a number (column 'y'); write a number, or choose --missing drop");
}

TEST_CASE("an empty cell of a row to predict needs a mean of the training rows", "[table]") {
  TableColumns columns{{"x"}, {}, ""};
  columns.has_answers = false;
  CHECK_THAT(table_error("x\n\"\"\n", columns),
             Catch::Contains("write a number, or pack the training rows with --missing mean"));
}

TEST_CASE("cells without a value take the mean of their column", "[table]") {
  TableColumns columns = kTarget;
  columns.missing = Missing::Mean;
  const Table table = parse_table("a,b,y\n1,2,3\n,n/a,4\n4,,5\n", "t.csv", columns);
  CHECK(table.dataset ==
        make_dataset({2, 1, 1}, std::vector<float>{1, 2, 2.5f, 2, 4, 2}, {3, 4, 5}, 1));
  CHECK(table.features ==
        std::vector<Feature>{{.column = "a", .fill = 2.5f}, {.column = "b", .fill = 2.f}});
  CHECK(table.notes == std::vector<std::string>{
                           "t.csv:3:1: is empty (column 'a'); 2.5 is in its place",
                           "t.csv:3:2: 'n/a' is not a number (column 'b', and 1 more); 2 is in its "
                           "place"});
  CHECK(table_error("a,y\n1,\n", columns) ==
        "t.csv:2:3: is empty (column 'y'); write a number, or choose --missing drop");
  CHECK(table_error("a,b,y\n1,,2\n", columns) ==
        "t.csv: column 'b' has no value in the rows for training; leave it out with --features");
  CHECK(table_error("a,y\n1\n", columns) ==
        "t.csv:2:1: the row has 1 values, but the header has 2 columns");
}

TEST_CASE("rows that lack a value in use are dropped, and the others keep their numbers",
          "[table]") {
  TableColumns columns = {{"a"}, {"y"}, ""};
  columns.missing = Missing::Drop;
  columns.shares.test = 0.5;
  const Table table = parse_table("a,b,y\n1,,3\nnan,2,4\n5,6,\n7,8,9\n", "t.csv", columns);
  CHECK(table.dataset == make_dataset({1, 1, 1}, std::vector<float>{1, 7}, {3, 9}, 1));
  CHECK(table.rows == std::vector<std::string>{"1", "4"});
  CHECK(table.notes == std::vector<std::string>{
                           "t.csv:3:1: 'nan' is not a number (column 'a'); such rows are left out",
                           "t.csv:4:5: is empty (column 'y'); such rows are left out"});
  TableColumns classes = kClass;
  classes.missing = Missing::Drop;
  CHECK(parse_table("x,y\n1,a\n2,\n", "t.csv", classes).dataset.size() == 1);
}

TEST_CASE("a column of texts in the first row is refused with what to type", "[table]") {
  CHECK(table_error("a,my town,b,y\n1,Ulm,x,2\n3,Bonn,z,4\n", kTarget) ==
        "t.csv:2:3: 'Ulm' is not a number (column 'my town'); for texts add --categories 'my "
        "town', or name other --features\n"
        "t.csv:2:7: 'x' is not a number (column 'b'); for texts add --categories b, or name other "
        "--features");
}

TEST_CASE("each text of a category has a number", "[table]") {
  TableColumns columns = kTarget;
  columns.categories = {"town"};
  const Table table = parse_table("a,town,y\n1,Ulm,2\n3,Bonn,4\n5,Ulm,6\n", "t.csv", columns);
  CHECK(table.dataset ==
        make_dataset({3, 1, 1}, std::vector<float>{1, 0, 1, 3, 1, 0, 5, 0, 1}, {2, 4, 6}, 1));
  CHECK(table.features[1].texts == std::vector<std::string>{"Bonn", "Ulm"});
  CHECK(table_error("a,town,y\n1,,2\n", columns) ==
        "t.csv: column 'town' has no value in the rows for training; leave it out with --features");
  CHECK(table_error("a,town,y\n1,,2\n1,Ulm,2\n", columns) ==
        "t.csv:2:3: is empty (column 'town'); write a text, or choose --missing mean or drop");
  CHECK_THAT(table_error("a,town,y\n1,d\xe4,2\n", columns), Catch::Contains("is not UTF-8"));
  columns.missing = Missing::Mean;
  CHECK(parse_table("town,y\n,2\nUlm,2\n", "t.csv", columns).dataset ==
        make_dataset({1, 1, 1}, std::vector<float>{0, 1}, {2, 2}, 1));
  columns.categories = {"twon"};
  CHECK_THAT(table_error("town,y\n", columns), Catch::Contains("did you mean 'town'?"));
  columns.categories = {"y"};
  CHECK(table_error("town,y\n", columns) ==
        "t.csv: column 'y' is not a feature; add it to --features");
}

TEST_CASE("a category with many texts is hashed, as Python's hashlib does", "[table]") {
  TableColumns columns = kTarget;
  columns.categories = {"name"};
  columns.buckets = 2;
  const std::string content = "name,y\nAda,1\nBob,2\nEve,3\n";
  const Table table = parse_table(content, "t.csv", columns);
  CHECK(table.features == std::vector<Feature>{{"name", Feature::Kind::Hash, {}, 2}});
  // int(hashlib.sha256(b"Ada").hexdigest()[:16], 16) % 2 and so on, which no version may change
  CHECK(table.dataset ==
        make_dataset({2, 1, 1}, std::vector<float>{0, 1, 1, 0, 0, 1}, {1, 2, 3}, 1));
  columns.buckets = 3;
  CHECK(parse_table(content, "t.csv", columns).features[0].kind == Feature::Kind::OneHot);
  columns.buckets = 0;
  std::string many = "name,y\n";
  for (uint32_t i = 0; i <= kMaxTextNumbers; ++i) many += "n" + std::to_string(i) + ",1\n";
  CHECK(table_error(many, columns) ==
        "t.csv: column 'name' has more than 1024 texts; add --hash 64");
}

TEST_CASE("codings come from the training rows alone", "[table]") {
  TableColumns columns = kTarget;
  columns.categories = {"town"};
  columns.missing = Missing::Mean;
  columns.shares.test = 0.5;
  std::string content = "a,town,y\n";
  double sum = 0;
  size_t count = 0;
  for (int row = 1; row <= 20; ++row) {
    const bool is_test = split_of(std::to_string(row), columns.shares) == Split::Test;
    content += std::to_string(row) + (is_test ? ",Rom,1\n" : ",Ulm,1\n");
    if (!is_test) sum += row, ++count;
  }
  const Table table = parse_table(content, "t.csv", columns);
  CHECK(table.features[0].fill == float(sum / double(count)));
  CHECK(table.features[1].texts == std::vector<std::string>{"Ulm"});
  REQUIRE(table.notes.size() == 1);
  CHECK_THAT(table.notes[0], Catch::Contains("'Rom' is in no training row (column 'town', and ") &&
                                 Catch::EndsWith("0 is in its place"));

  TableColumns test = kTarget;
  test.features = {"a", "town"};
  test.known = table.features;
  const Table other = parse_table("town,a,y\nUlm,,1\n,7,2\n", "test.csv", test);
  CHECK(other.features == table.features);
  CHECK(other.dataset ==
        make_dataset({2, 1, 1}, std::vector<float>{*table.features[0].fill, 1, 7, 0}, {1, 2}, 1));
}

TEST_CASE("a line of columns.txt has a feature with its coding", "[table]") {
  const std::vector<Feature> features = {{"a b"},
                                         {.column = "age", .fill = 29.7f},
                                         {"town", Feature::Kind::OneHot, {"Bonn", "U\"{\"lm"}},
                                         {"name", Feature::Kind::Hash, {}, 64, 0.f}};
  std::vector<std::string> lines;
  for (const Feature& feature : features) lines.push_back(line_of(feature));
  CHECK(lines == std::vector<std::string>{"feature a b", R"(feature age {"empty":29.7})",
                                          R"(feature town {"one_hot":["Bonn","U\"{\"lm"]})",
                                          R"(feature name {"empty":0.0,"hash":64})"});
  lines.push_back("target price");
  CHECK(features_of(lines) == features);
  CHECK(features_of({"feature x {y}", "feature x {\"y"}) == std::vector<Feature>{{"x {y}"}, {"x"}});
  CHECK_THROWS_WITH(features_of({R"(feature a {"hash":"x"})"}),
                    Catch::Contains("is not a column: type must be number"));
}

TEST_CASE("numbers that never change are named by their column", "[table]") {
  TableColumns columns = kTarget;
  columns.categories = {"town"};
  const Table table = parse_table("km,town,age,y\n1,Ulm,7,0\n2,Bonn,7,0\n", "t", columns);
  CHECK(note_on_constants(table.dataset, table.features) ==
        "1 of 4 numbers never change, such as that of column 'age'");
  const Table numbers = parse_table("km,y\n1,0\n2,0\n", "t", kTarget);
  CHECK(note_on_constants(numbers.dataset, numbers.features).empty());
  const Dataset picture = make_dataset({1, 1, 2}, std::vector<float>{1, 1}, {0}, 1);
  CHECK(note_on_constants(picture, {}).empty());
}

TEST_CASE("a table of texts has a text per row, and its class if there is such a column",
          "[table]") {
  const std::string content = "text,kind\n\"a, b\",x\n c ,y\n";
  const TextTable plain = parse_text_table(content, "t.csv", {"text", ""});
  CHECK(plain.texts == std::vector<std::string>{"a, b", "c"});
  CHECK(plain.classes.empty());
  CHECK(parse_text_table(content, "t.csv", {"kind", ""}).texts ==
        std::vector<std::string>{"x", "y"});
  const TextTable classes = parse_text_table(content, "t.csv", {"text", "kind"});
  CHECK(classes.texts == plain.texts);
  CHECK(classes.classes == std::vector<std::string>{"x", "y"});
  CHECK(parse_text_table("a\tb\n1\t2\n", "t.tsv", {"b", "a"}, '\t').texts ==
        std::vector<std::string>{"2"});
  CHECK_THROWS_WITH(parse_text_table(content, "t.csv", {"text", "text"}),
                    Catch::Contains("'text' is named twice"));
  CHECK_THROWS_WITH(parse_text_table(content, "t.csv", {"txt", ""}),
                    Catch::Contains("did you mean 'text'?"));
  CHECK_THROWS_WITH(parse_text_table(content, "t.csv", {"text", "kin"}),
                    Catch::Contains("did you mean 'kind'?"));
}

TEST_CASE("every mistake in a table of texts is reported with line and column", "[table]") {
  using namespace std::string_literals;
  const auto error_of = [](const std::string& content) {
    try {
      parse_text_table(content, "t.csv", {"text", "kind"});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return ""s;
  };
  CHECK(error_of("text,kind\n,x\nb\nc,\n\xff,x\nd\0,x\n,\n"s) ==
        "t.csv:2:1: is empty; write a text, or leave the row out (column 'text')\n"
        "t.csv:3:1: the row has 1 values, but the header has 2 columns\n"
        "t.csv:4:3: is empty; write the name of a class (column 'kind')\n"
        "t.csv:6:1: has a NUL byte, which text cannot have (column 'text')\n"
        "t.csv:7:1: is empty; write a text, or leave the row out (column 'text')\n"
        "t.csv:7:2: is empty; write the name of a class (column 'kind')");
  CHECK(error_of("text,kind\n\xff,x\n").empty());
}

TEST_CASE("numbers must be decimal, finite and within single precision", "[table]") {
  const auto error_of = [](const std::string& number) {
    return table_error("x,y\n" + number + ",1\n", kTarget);
  };
  for (const char* good : {"0", "-0", "+1", "1e5", ".5", "3.4028234e38", "1e-40"}) {
    INFO(good);
    CHECK(error_of(good).empty());
  }
  for (const char* bad : {"+", "1x", "0x10", "1 2", "1,5"}) CHECK_FALSE(error_of(bad).empty());
  CHECK_THAT(error_of("inf"), Catch::Contains("is not finite"));
  CHECK_THAT(error_of("3.5e38"), Catch::Contains("does not fit into single precision"));
  CHECK_THAT(error_of("-3.5e38"), Catch::Contains("does not fit into single precision"));
  CHECK_THAT(error_of("a" + std::string(40, 'z')),
             Catch::Contains(": 'a" + std::string(39, 'z') + "…' is not a number"));
  CHECK_THAT(error_of(std::string(40, 'z')),
             Catch::Contains(": '" + std::string(40, 'z') + "' is not a number"));
}

TEST_CASE("a table is not read beyond the end of its text", "[table]") {
  const auto cut = [](const std::string& text, const std::string& behind) {
    const std::string both = text + behind;
    std::vector<float> targets;
    try {
      const Table table =
          parse_table(std::string_view(both).substr(0, text.size()), "t.csv", kTarget);
      for (size_t i = 0; i < table.dataset.size(); ++i) {
        targets.push_back(table.dataset.targets[i][0]);
      }
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("t.csv:2:3: is empty (column 'y')"));
    }
    return targets;
  };
  using Targets = std::vector<float>;
  CHECK(cut("x,y\n1,", "\"2\"\n").empty());
  CHECK(cut("x,y\n1,", "2\n").empty());
  CHECK(cut("x,y\n1,\"2\"", "\"\n") == Targets{2});
  CHECK(cut("x,y\n1,\"2\"", "3\n") == Targets{2});
  CHECK(cut("x,y\n1,2", "3\n") == Targets{2});
  CHECK(cut("x,y\n1,2\n", "3,4\n") == Targets{2});
  CHECK(cut("x,y\r1,2\r", "\n3,4\n") == Targets{2});
}

TEST_CASE("duplicate column names, and names that are not UTF-8, are reported with their places",
          "[table]") {
  CHECK(table_error("a,b,b\n1,2,30\n", {{}, {"b"}, ""}) ==
        "t.csv:1:5: a second column is called 'b'; give each column a name of its own");
  CHECK(table_error("a,\xe9\n1,2\n", {{}, {"a"}, ""}) ==
        "t.csv:1:3: the first line names the columns; this name is not UTF-8");
  CHECK(table_error("x,y\n1,cat\n2,d\xe4g\n", kClass) ==
        "t.csv:3:3: is not UTF-8; convert the file with iconv (column 'y')");
}

TEST_CASE("a table in UTF-16, or a compressed one, is refused as such", "[table]") {
  using namespace std::string_literals;
  CHECK_THAT(table_error("\xff\xfex\0,\0"s, kTarget),
             Catch::Equals("t.csv: is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"));
  CHECK_THAT(table_error("\x1f\x8b\x08", kTarget), Catch::Contains("compressed by gzip"));
  CHECK_NOTHROW(refuse_unreadable("t.csv"));
  CHECK_NOTHROW(refuse_unreadable("images.gz"));
  CHECK_THROWS_WITH(refuse_unreadable("a/t.csv.gz"),
                    "a/t.csv.gz is a compressed table; unpack it: gunzip -k a/t.csv.gz");
  CHECK_THROWS_WITH(refuse_unreadable("t.tsv.zst"), Catch::EndsWith("unzstd -k t.tsv.zst"));
}

TEST_CASE("a file that Python can convert is refused with the command for it", "[table]") {
  CHECK_THROWS_WITH(refuse_unreadable("a/my t.parquet"),
                    "a/my t.parquet is read by Python: python -m dlflow.convert 'a/my t.parquet' "
                    "-o 'my t.csv'");
  for (const std::string ending : {"h5", "hdf5", "nc", "npz"}) {
    CHECK_THROWS_WITH(refuse_unreadable("t." + ending),
                      Catch::Contains(" -o t.npy, with --name ARRAY for each of several"));
  }
  CHECK_THROWS_WITH(
      refuse_unreadable("my net.pt"),
      Catch::EndsWith("python3 -m dlflow.torch.weights 'my net.pt' -o 'my net.safetensors'"));
  CHECK_THROWS_WITH(refuse_unreadable("t.xlsx"), Catch::EndsWith("; save it as CSV"));
}

TEST_CASE("whole numbers that single precision rounds cause one note per column", "[table]") {
  const Table table = parse_table(
      "id,y\n16777216,1\n16777217,2\n-16777219.0,-3\n16777218,9007199254740993\n1e30,0\n", "t.csv",
      kTarget);
  CHECK(table.notes ==
        std::vector<std::string>{
            "t.csv:3:1: '16777217' becomes 16777216 in single precision (column 'id', and 1 more); "
            "leave the column out with --features, or subtract a constant, if this matters",
            "t.csv:5:10: '9007199254740993' becomes 9007199254740992 in single precision (column "
            "'y'); leave the column out with --features, or subtract a constant, if this matters"});
  CHECK(parse_table("id,y\n16777216,0.1\n", "t.csv", kTarget).notes.empty());
}

TEST_CASE("a class that may mean a missing value causes a note", "[table]") {
  const Table table = parse_table("x,y\n1,NA\n2,cat\n3,NA\n4,nan\n", "t.csv", kClass);
  CHECK(table.notes == std::vector<std::string>{
                           "t.csv:2:3: 'NA' is a class like any other (column 'y', and 1 "
                           "more); leave the row out if its class is not known",
                           "t.csv:5:3: 'nan' is a class like any other (column 'y'); leave the "
                           "row out if its class is not known"});
  CHECK(parse_text_table("t,y\na,?\n", "t.csv", {"t", "y"}).notes.size() == 1);
}

TEST_CASE("numeric classes are sorted by value, and each must be written in one way", "[table]") {
  using Names = std::vector<std::string>;
  CHECK(in_order_of_labels({"10", "9.0", "1"}, "t") == Names{"1", "9.0", "10"});
  CHECK(in_order_of_labels({"1e1", "-0.5", "2"}, "t") == Names{"-0.5", "2", "1e1"});
  CHECK(in_order_of_labels({"10", "9", "nan"}, "t") == Names{"10", "9", "nan"});
  CHECK(in_order_of_labels({"9007199254740993", "9007199254740992"}, "t") ==
        Names{"9007199254740992", "9007199254740993"});
  CHECK_THROWS_WITH(in_order_of_labels({"9", "9.0"}, "t.csv"),
                    "t.csv: the classes '9' and '9.0' are the same number; write it in one way");
}

TEST_CASE("tables are recognised by their extension", "[table]") {
  CHECK(is_table("a/b.csv"));
  CHECK(is_table("b.tsv"));
  CHECK_FALSE(is_table("b.txt"));
  CHECK(separator_of("b.tsv") == '\t');
  CHECK(separator_of("b.csv") == ',');
}

TEST_CASE("a column with too many classes is refused", "[table]") {
  std::string content = "x,y\n";
  for (size_t i = 0; i <= kMaxTableClasses; ++i) content += "1," + std::to_string(i) + "\n";
  CHECK_THAT(table_error(content, kClass), Catch::Contains("has more than 65536 classes"));
  content.resize(content.rfind("1,"));
  CHECK(table_error(content, kClass).empty());
}
