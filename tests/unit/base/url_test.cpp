#include "base/url.h"

#include "base/local_files.h"
#include "tests/support/answers.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using Catch::Contains;
using test::check_answers;

namespace {

std::vector<std::string> names(const std::string& url) {
  std::vector<std::string> names;
  for (const LocalFile& file : list_local_files(*parse_file_url(url))) names.push_back(file.name);
  return names;
}

}  // namespace

TEST_CASE("an address is shown without its possible secrets", "[url]") {
  check_answers(display_url, {{"https://me:secret@host/p@th", "https://host/p@th"},
                              {"https://host/x?key=secret", "https://host/x?…"},
                              {"ssh://me@host:22/x?y", "ssh://host:22/x?y"},
                              {"no address", "no address"}});
}

TEST_CASE("an escape in an address stands for one character", "[url]") {
  CHECK(percent_decoded("a%20b%zz%2") == "a b%zz%2");
  CHECK(percent_encoded("/a b/ü") == "/a%20b/%C3%BC");
  CHECK(percent_decoded(percent_encoded("a%[*]?")) == "a%[*]?");
}

TEST_CASE("the end of a path says whether it is a file, a folder or a pattern", "[url]") {
  CHECK(parse_url_path("/d/x").is_file());
  CHECK(parse_url_path("/d/x/").is_folder);
  CHECK(parse_url_path("/d/x/").path == "/d/x");
  CHECK(parse_url_path("/").path == "/");
  const UrlPath pattern = parse_url_path("/d%20e/*.g[zx]");
  CHECK(pattern.path == "/d e");
  CHECK(pattern.pattern == "*.g[zx]");
  CHECK(parse_url_path("/d/x%5B1%5D").path == "/d/x[1]");
  CHECK_FALSE(parse_file_url("file://d/x"));
  CHECK_FALSE(parse_file_url("http:///d/x"));
}

TEST_CASE("a pattern treats wildcards as a shell does, and escaped ones as letters", "[url]") {
  CHECK(matches("a.gz", "*.gz"));
  CHECK_FALSE(matches(".a.gz", "*.gz"));
  CHECK(matches("a*.gz", parse_url_path("/d/a%2A?gz").pattern));
  CHECK_FALSE(matches("ab.gz", parse_url_path("/d/a%2A?gz").pattern));
}

TEST_CASE("a folder has all files below it, and a pattern those of one folder", "[local_files]") {
  const test::TempDir folder;
  folder.write("a.gz", "");
  folder.write("b.gz", "");
  folder.write("b.txt", "");
  folder.write("c/d.gz", "");
  std::filesystem::create_symlink("a.gz", folder.path() / "l.gz");
  const std::string url = "file://" + folder.path().string();
  CHECK(names(url + "/") == std::vector<std::string>{"a.gz", "b.gz", "b.txt", "c/d.gz", "l.gz"});
  CHECK(names(url + "/*.gz") == std::vector<std::string>{"a.gz", "b.gz", "l.gz"});
  CHECK(names(url + "/a.gz") == std::vector<std::string>{""});
  CHECK_THROWS_WITH(names(url), Contains("is a folder; add a / at the end"));
  CHECK_THROWS_WITH(names(url + "/*.bz2"), Contains("no file in it is called *.bz2"));
  CHECK_THROWS_WITH(names(url + "/none/"), Contains("there is no such folder"));
  std::filesystem::create_symlink("nothing", folder.path() / "dangling");
  CHECK_THROWS_WITH(names(url + "/"), Contains("dangling is neither a file nor a folder"));
}

TEST_CASE("missing data of a Debian package is reported with the package's name", "[url]") {
  CHECK_THROWS_WITH(
      names("file:///usr/share/datasets/gone-set/x.gz"),
      Catch::EndsWith("there is no such file; Debian's package dataset-gone-set has it"));
  CHECK_THROWS_WITH(names("file:///usr/share/gone/x.gz"), Catch::EndsWith("there is no such file"));
}
