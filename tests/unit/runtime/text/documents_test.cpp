#include "runtime/text/documents.h"

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
namespace fs = std::filesystem;

namespace {

std::vector<std::pair<std::string, std::string>> read(const std::vector<fs::path>& sources,
                                                      const std::string& pattern = "*.txt") {
  std::vector<std::pair<std::string, std::string>> result;
  const Documents documents = read_documents(sources, pattern);
  for (const Document& document : documents.all) result.emplace_back(document.name, document.text);
  return result;
}

using Result = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("files of folders are selected by a pattern, in the order of names", "[documents]") {
  const test::TempDir folder;
  fs::create_directories(folder.path() / "b");
  write_file_atomic(folder.path() / "b/2.txt", "two");
  write_file_atomic(folder.path() / "b/1.txt", "one");
  write_file_atomic(folder.path() / "a.txt", "first");
  write_file_atomic(folder.path() / "c.md", "other");
  write_file_atomic(folder.path() / "empty.txt", "");
  CHECK(read({folder.path()}) ==
        Result{{"a.txt", "first"}, {"b/1.txt", "one"}, {"b/2.txt", "two"}});
  CHECK(read({folder.path()}, "*.md") == Result{{"c.md", "other"}});
  CHECK(read({folder.path() / "c.md", folder.path() / "b"}) ==
        Result{{"c.md", "other"}, {"1.txt", "one"}, {"2.txt", "two"}});
  CHECK_THROWS_WITH(read({folder.path()}, "*.rst"), Catch::Contains("--pattern '*.rst'"));
  CHECK_THROWS_WITH(read({folder.path() / "none"}), Catch::Contains("no such file or folder"));
  CHECK_THROWS_WITH(read({folder.path() / "empty.txt"}), Catch::Contains("has no text"));
}

TEST_CASE("the order of a folder's files does not depend on when they were written",
          "[documents]") {
  const test::TempDir folder;
  for (const char* name : {"b", "c", "a", "d"}) {
    write_file_atomic(folder.path() / (name + std::string(".txt")), name);
  }
  CHECK(read({folder.path()}) ==
        Result{{"a.txt", "a"}, {"b.txt", "b"}, {"c.txt", "c"}, {"d.txt", "d"}});
}

TEST_CASE("a pattern applies only to names of files", "[documents]") {
  const test::TempDir folder;
  fs::create_directories(folder.path() / "b.txt");
  write_file_atomic(folder.path() / "b.txt/a.txt", "inner");
  write_file_atomic(folder.path() / "b.txt/c.md", "other");
  CHECK(read({folder.path()}) == Result{{"b.txt/a.txt", "inner"}});
  CHECK(read({folder.path()}, "[/a].txt") == Result{{"b.txt/a.txt", "inner"}});
  CHECK_THROWS_WITH(read({folder.path()}, "b.txt/*"), Catch::Contains("has no files that match"));
}

TEST_CASE("a line may end a document within a file", "[documents]") {
  const test::TempDir folder;
  const fs::path file = folder.path() / "s.txt";
  write_file_atomic(file, "<|endoftext|>\none\n<|endoftext|>\n\n <|endoftext|>\n<|endoftext|>");
  CHECK(read({file}) == Result{{"s.txt:1", "one\n"}, {"s.txt:2", "\n <|endoftext|>\n"}});
}

TEST_CASE("documents also end in a text with line ends of Windows", "[documents]") {
  const test::TempDir folder;
  const fs::path file = folder.path() / "s.txt";
  write_file_atomic(file, "\xEF\xBB\xBFone\r\n<|endoftext|>\r\ntwo\r\n<|endoftext|>\r\n");
  CHECK(read({file}) == Result{{"s.txt:1", "one\r\n"}, {"s.txt:2", "two\r\n"}});
  write_file_atomic(file, "\xEF\xBB\xBF<|endoftext|>\none");
  CHECK(read({file}) == Result{{"s.txt", "one"}});
}

TEST_CASE("a text in UTF-16, or a compressed one, is refused as such", "[documents]") {
  const test::TempDir folder;
  write_file_atomic(folder.path() / "a.txt", std::string("\xff\xfe"
                                                         "a\0",
                                                         4));
  write_file_atomic(folder.path() / "b.txt", std::string("\xfd"
                                                         "7zXZ\0",
                                                         6));
  CHECK_THROWS_WITH(read({folder.path()}),
                    Catch::Contains("a.txt: is UTF-16; convert it: iconv") &&
                        Catch::Contains("b.txt: is compressed by xz; unpack it with unxz"));
}

TEST_CASE("all files that are not text are reported with their places", "[documents]") {
  const test::TempDir folder;
  write_file_atomic(folder.path() / "a.txt", "good");
  write_file_atomic(folder.path() / "b.txt", "one\ncaf\xe9");
  CHECK(read({folder.path()}).size() == 2);  // any bytes except NUL
  write_file_atomic(folder.path() / "c.txt", std::string("one\nx\0", 6));
  CHECK_THROWS_WITH(read({folder.path()}),
                    Catch::EndsWith("c.txt:2:2: is a NUL byte, which text cannot have"));
  for (int i = 0; i < 25; ++i) {
    write_file_atomic(folder.path() / ("x" + std::to_string(i) + ".txt"), std::string(1, '\0'));
  }
  CHECK_THROWS_WITH(read({folder.path()}), Catch::Contains("and 6 more files"));
}
