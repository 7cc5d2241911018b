#include "base/secret_file.h"

#include <sys/stat.h>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

std::string refusal(const std::string& text) {
  return test::error_of([&] { parse_secrets(text, "secrets"); });
}

}  // namespace

TEST_CASE("a file of secrets has a line for each, and comments", "[secrets]") {
  CHECK(parse_secrets("# mine\n\nA=one = 1 \n  \nB_2=#two\n", "secrets") ==
        Secrets{{"A", "one = 1 "}, {"B_2", "#two"}});
  CHECK(parse_secrets("", "secrets").empty());
  CHECK(parse_secrets("A=last", "secrets") == Secrets{{"A", "last"}});
}

TEST_CASE("a wrong line is reported by its number, never by its content", "[secrets]") {
  CHECK(refusal("A=good\nhunter2hunter2\n") ==
        "secrets:2: this line is not of the form NAME=VALUE");
  CHECK(refusal("=hunter2") == "secrets:1: this line is not of the form NAME=VALUE");
  CHECK(refusal("A=hunter1\nA=hunter2") == "secrets:2: a second line for A; remove one");
  CHECK(
      refusal("A=abc") ==
      "the secret A (secrets:1) has fewer than 4 characters: it is too short to be masked in logs");
  const std::string windows = refusal("A=hunter2\r\n");
  CHECK(windows.find("A (secrets:1) has a line break or another control character") !=
        std::string::npos);
  CHECK(windows.find("hunter2") == std::string::npos);
}

TEST_CASE("secrets are readable only by their owner, and read by name", "[secrets]") {
  const test::TempDir folder;
  const auto file = folder.path() / "secrets";
  const mode_t before = ::umask(0);
  write_secrets(file, {{"A", "one = 1 "}, {"B", "#two\xff\\"}});
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(read_secrets(file, {"B"}) == Secrets{{"B", "#two\xff\\"}});
  CHECK(read_secrets(file, {"A", "B"}).at("A") == "one = 1 ");
  CHECK_THROWS_WITH(read_secrets(file, {"A", "C"}), Catch::StartsWith("the secret C is not in "));
  CHECK(read_secrets(folder.path() / "none", {}).empty());
  CHECK_THROWS_AS(read_secrets(folder.path() / "none", {"A"}), Error);
}
