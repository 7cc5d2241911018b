#include "base/http_request.h"

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("no request of curl reads ~/.curlrc or shows its address to other users", "[base]") {
  const HttpCall call = http_call({.url = "https://h/?key=\"s\\",
                                   .headers = {"Authorization: Bearer t"},
                                   .options = {"--fail"}});
  REQUIRE(call.argv.size() > 2);
  CHECK(call.argv[1] == "--disable");  // curl reads it only in the first place
  CHECK(call.argv.back() == "--fail");
  for (const std::string& word : call.argv) {
    CHECK(word.find("key") == word.npos);
    CHECK(word.find("Bearer") == word.npos);
    CHECK(word != "--fail-with-body");  // curl 7.76
  }
  CHECK(call.settings ==
        "url = \"https://h/?key=\\\"s\\\\\"\nheader = \"Authorization: Bearer t\"\n");
  CHECK_THROWS_AS(http_call({.url = "http://h/\nurl = file:///etc/passwd"}), Error);
}

TEST_CASE("a loopback address is an address of this machine, not a name with the same beginning",
          "[base]") {
  for (const char* const host :
       {"localhost", "localhost:5000", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5000"}) {
    INFO(host);
    CHECK(is_loopback(host));
  }
  for (const char* const host :
       {"localhost.evil.example", "localhost-evil:5000", "127.0.0.1.evil.example:5000",
        "127.0.0.1x", "128.0.0.1", "[::2]:80", "[::1", "", "evil.example"}) {
    INFO(host);
    CHECK_FALSE(is_loopback(host));
  }
}
