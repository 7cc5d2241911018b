#include "base/text.h"

#include "tests/support/answers.h"

using namespace dlflow;
using test::check_answers;

TEST_CASE("a typo is answered with the nearest word, and nonsense with no word", "[text]") {
  const std::vector<std::string> words = {"train", "evaluate", "needs"};
  CHECK(nearest("trian", words) == "train");
  CHECK(nearest("neds", words) == "needs");
  CHECK(nearest("zebra", words).empty());
  CHECK(nearest("b", std::vector<std::string>{"a"}).empty());
  CHECK(nearest("TRAIN", words) == "train");
  CHECK(nearest("eval", words) == "evaluate");
  CHECK(nearest("ev", words).empty());
  CHECK(nearest("gpus", std::vector<std::string>{"gpus_per_rank", "gpus_per_node"}).empty());
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
  check_answers(
      escaped,
      {{"ü → 😀", "ü → 😀"}, {"a\tb\r\n", "a\\tb\\r\\n"}, {"\033[31m\x7f", "\\u001b[31m\\u007f"}});
}

TEST_CASE("escaped text cannot control a terminal by C1, or reverse other text", "[text]") {
  check_answers(escaped,
                {{"a\u009b31mb", "a\\u009b31mb"},  // CSI in one character
                 {"a\x9b"
                  "31mb",
                  "a\\x9b31mb"},                             // ... and in one byte
                 {"fdp\u202egpj.exe", "fdp\\u202egpj.exe"},  // right to left from here
                 {"\u2066a\u2069\u200f\u061c\u2028", "\\u2066a\\u2069\\u200f\\u061c\\u2028"},
                 {"שלום عربي", "שלום عربي"}});
  CHECK(escaped_lines("a\n\tb\033[2J") == "a\n\tb\\u001b[2J");
}

TEST_CASE("names that contain line ends stay distinct in a line", "[text]") {
  CHECK(name_in_line("a b/ü") == "a b/ü");
  CHECK(name_in_line("a\nb\r\\n") == "a\\nb\\r\\\\n");
}

TEST_CASE("a shell reads a quoted word back as it was", "[text]") {
  check_answers(shell_quote, {{"a/b=1", "a/b=1"}, {"it's; rm", "'it'\\''s; rm'"}, {"", "''"}});
}

TEST_CASE("base 64 follows RFC 4648", "[text]") {
  check_answers(
      base64, {{"", ""}, {"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {"\xff\xfe\xfd", "//79"}});
}

TEST_CASE("a field of comma-separated values is quoted where necessary", "[text]") {
  check_answers(csv_field, {{"T-shirt/top", "T-shirt/top"},
                            {"a,b", "\"a,b\""},
                            {"say \"a\"\n", "\"say \"\"a\"\"\n\""},
                            {"", ""}});
}
