#include "steps/transfer/curl.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;

TEST_CASE("curl's exit status is described in words, with whether to try again", "[curl]") {
  struct Case {
    int exit_status;
    bool may_pass;
    const char* words;
  };
  const Case each = GENERATE(
      Case{6, true, "the host's name cannot be resolved"},
      Case{7, true, "the host refuses connections"},
      Case{18, true, "the connection ended before all data had arrived"},
      Case{23, false, "is the disk full?"}, Case{28, true, "does not answer, or too slowly"},
      Case{47, false, "too many redirects"}, Case{56, true, "the connection broke"},
      Case{60, false, "certificate is not trusted"}, Case{2, false, "curl failed"});
  CurlResult result;
  result.exit_status = each.exit_status;
  const Error error = curl_error(result, "http://h/x");
  CHECK(error.retryable() == each.may_pass);
  CHECK_THAT(error.what(),
             Contains("cannot download http://h/x: ") && Contains(each.words) &&
                 Contains("curl's exit status is " + std::to_string(each.exit_status)));
  result.message = "curl: why";
  CHECK_THAT(curl_error(result, "u").what(), Catch::EndsWith(" (curl: why)"));
}

TEST_CASE("an address and a secret reach curl unchanged", "[curl]") {
  std::atomic<bool> arrived = false;
  const test::AnsweringServer server([&](const std::string& request) {
    arrived = request.starts_with("GET /a%22b\\c?x=[1-2] HTTP") &&
              request.find("Authorization: Bearer \"q\\\r\n") != request.npos;
    return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  });
  const test::TempDir folder;
  const auto file = folder.path() / "file";
  const CurlResult result = run_curl(
      "http://" + server.host() + "/a%22b\\c?x=[1-2]", {"--output", file}, folder.path() / "t",
      [](const HttpResponse&) {}, "Bearer \"q\\");
  CHECK(result.exit_status == 0);
  CHECK(result.response.status == 200);
  CHECK(arrived);
  CHECK(read_file(file) == "ok");
}

TEST_CASE("a server cannot send a download to a file of this machine", "[curl][attack]") {
  const test::TempDir folder;
  const auto secret = folder.write("secret", "s");
  const test::AnsweringServer server([&](const std::string&) {
    return "HTTP/1.1 302 Found\r\nLocation: file://" + secret.string() +
           "\r\nContent-Length: 0\r\n\r\n";
  });
  const CurlResult result =
      run_curl("http://" + server.host() + "/x", {"--output", folder.path() / "file"},
               folder.path() / "t", [](const HttpResponse&) {});
  CHECK(result.exit_status == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "file"));
}

TEST_CASE("the answer to an earlier request is not taken for the current one's", "[curl]") {
  const test::TempDir folder;
  folder.write("t.headers", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  const uint16_t closed = test::bind_free_port().second;
  const CurlResult result = run_curl("http://127.0.0.1:" + std::to_string(closed) + "/", {},
                                     folder.path() / "t", [](const HttpResponse&) {});
  CHECK(result.exit_status == 7);
  CHECK(result.response.status == 0);
}
