#include "base/text.h"

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a typo is answered with the nearest word, nonsense with none", "[text]") {
  const std::vector<std::string> words = {"train", "evaluate", "needs"};
  CHECK(nearest("trian", words) == "train");
  CHECK(nearest("neds", words) == "needs");
  CHECK(nearest("zebra", words).empty());
  CHECK(nearest("b", std::vector<std::string>{"a"}).empty());
  CHECK(did_you_mean("trian", words) == "; did you mean 'train'?");
}

TEST_CASE("invalid UTF-8 is found where it starts", "[text]") {
  CHECK(find_invalid_utf8("plain, ✔ and 😀") == std::string_view::npos);
  CHECK(find_invalid_utf8("ab\xff") == 2);
  CHECK(find_invalid_utf8("\xc0\xaf") == 0);      // overlong
  CHECK(find_invalid_utf8("\xed\xa0\x80") == 0);  // a surrogate
  CHECK(find_invalid_utf8("a\xe2\x9c") == 1);     // cut off
}

TEST_CASE("escaped text is one line, and letters of all languages stay", "[text]") {
  CHECK(escaped("ü → 😀") == "ü → 😀");
  CHECK(escaped("a\tb\r\n") == "a\\tb\\r\\n");
  CHECK(escaped("\033[31m\x7f") == "\\u001b[31m\\u007f");
}

TEST_CASE("a shell reads a quoted word back as it was", "[text]") {
  CHECK(shell_quote("a/b=1") == "a/b=1");
  CHECK(shell_quote("it's; rm") == "'it'\\''s; rm'");
  CHECK(shell_quote("") == "''");
}
