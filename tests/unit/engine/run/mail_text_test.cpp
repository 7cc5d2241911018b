#include "base/text.h"
#include "engine/run/notify/channels.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// Returns the header lines of a mail.
std::vector<std::string> head(const std::string& mail) {
  return split(mail.substr(0, mail.find("\n\n")), '\n');
}

}  // namespace

TEST_CASE("a header of ASCII is written unchanged, and any other in the encoding of RFC 2047",
          "[mail]") {
  CHECK(in_header("dlflow: demo-1 failed, exit 3") == "dlflow: demo-1 failed, exit 3");
  CHECK(in_header("") == "");
  CHECK(in_header("für β = 1_2?") == "=?UTF-8?Q?f=C3=BCr=20=CE=B2=20=3D=201=5F2=3F?=");
}

TEST_CASE("no line of a header is longer than the 76 characters of RFC 2047", "[mail]") {
  const std::string mail = mail_text("ann@example.org", "ü" + repeated("a", 200), "text");
  const std::vector<std::string> lines = head(mail);
  CHECK(lines[1] == "Subject: =?UTF-8?Q?=C3=BC" + repeated("a", 49) + "?=");
  CHECK(lines[1].size() == 76);
  CHECK(lines[2] == " =?UTF-8?Q?" + repeated("a", 55) + "?=");
}

TEST_CASE("no word of a header ends within a character", "[mail]") {
  const std::string text = "abc" + repeated("ü", 30) + repeated("€", 30);
  std::string decoded;
  for (const std::string& word : split(in_header(text), ' ')) {
    INFO(word);
    CHECK(word.size() <= 76);
    const std::string inside = word.substr(10, word.size() - 12);
    CHECK_FALSE(inside.starts_with("=BC"));
    CHECK_FALSE(inside.starts_with("=82"));
    CHECK_FALSE(inside.starts_with("=AC"));
    decoded += inside;
  }
  CHECK(decoded == "abc" + repeated("=C3=BC", 30) + repeated("=E2=82=AC", 30));
}

TEST_CASE("a mail names its recipient and its encoding UTF-8", "[mail]") {
  CHECK(mail_text("ann@example.org", "dlflow: demo-1 succeeded", "für alle\n") ==
        "To: ann@example.org\nSubject: dlflow: demo-1 succeeded\nMIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nfür alle\n");
}
