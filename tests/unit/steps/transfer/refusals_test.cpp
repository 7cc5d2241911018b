#include "base/error.h"
#include "base/json.h"
#include "steps/transfer/download.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/listed_names.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;

namespace {

/// The error of a download from a server that answers with `status`, and the number of requests.
struct Refusal {
  Errc code = Errc::Corrupt;
  std::string message;
  int asked = 0;
};

Refusal refusal_of(const std::string& status) {
  std::atomic<int> asked{0};
  const test::AnsweringServer server([&](const std::string&) {
    ++asked;
    return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n";
  });
  const test::TempDir folder;
  DownloadRequest request{.address = parse_address("http://" + server.host() + "/x"),
                          .partial = folder.path() / "partial"};
  request.progress = [](uint64_t, std::optional<uint64_t>) {};
  try {
    download(request, folder.path() / "curl", {.max_tries = 3, .first_wait = 1ms});
  } catch (const Error& error) {
    return {error.code(), error.what(), asked};
  }
  return {};
}

std::string bad_address(const std::string& url) {
  return test::error_of([&] { parse_address(url); });
}

}  // namespace

TEST_CASE("a server that lacks or denies a file is asked once", "[download]") {
  for (const char* status : {"404 Not Found", "410 Gone"}) {
    const Refusal refusal = refusal_of(status);
    CHECK(refusal.code == Errc::NotFound);
    CHECK_THAT(refusal.message, Catch::EndsWith(": there is no such file"));
    CHECK(refusal.asked == 1);
  }
  for (const char* status : {"401 Unauthorized", "403 Forbidden"}) {
    const Refusal refusal = refusal_of(status);
    CHECK(refusal.code == Errc::InvalidInput);
    CHECK_THAT(refusal.message, Catch::EndsWith(": access is denied"));
    CHECK(refusal.asked == 1);
  }
  const Refusal refusal = refusal_of("418 Teapot");
  CHECK(refusal.code == Errc::InvalidInput);
  CHECK_THAT(refusal.message, Catch::EndsWith("the server answers 418"));
  CHECK(refusal.asked == 1);
}

TEST_CASE("a server that is busy or in trouble is asked again", "[download]") {
  for (const char* status : {"408 Timeout", "429 Too Many", "500 Trouble", "503 Later"}) {
    const Refusal refusal = refusal_of(status);
    CHECK(refusal.code == Errc::Unavailable);
    CHECK(refusal.asked == 3);
  }
}

TEST_CASE("an address that another program could take for something else is refused", "[address]") {
  for (const char* url : {"ssh://-oProxyCommand=x/y",
                          "ssh:///x",
                          "ssh://a b/x",
                          "ssh://h;x/y",
                          "ssh://u'@h/x",
                          "ssh://-u@h/x",
                          "ssh://[::1/x",
                          "ssh://::1]/x",
                          "ssh://h:0/x",
                          "ssh://h:65536/x",
                          "ssh://h:2x/x",
                          "ssh://h:/x",
                          "ssh://h:99999999999/x",
                          "ssh://u:secret@h/x",
                          "rclone://-r/x",
                          "rclone:///x",
                          "rclone://a:b/x",
                          "git+https://u:secret@h/x",
                          "ftp://h/x",
                          "file://x",
                          "http://h/\x7f",
                          "http://h/a b",
                          "ssh://h/a%0ab"}) {
    INFO(url);
    CHECK_FALSE(bad_address(url).empty());
  }
  for (const char* url : {"ssh://u.-_1@h.-_1:1/x", "ssh://h:65535/x", "ssh://[fe80::1%eth0]:22/x",
                          "rclone://a.b_c+d@e-f/x", "git+https://u@h/x", "git+ssh://h/x",
                          "git+file:///x", "https://u:p@h/x", "file:///x"}) {
    INFO(url);
    CHECK(bad_address(url).empty());
  }
  CHECK(parse_address("ssh://h/~").place.path == ".");
  CHECK(parse_address("ssh://h/~x").place.path == "/~x");
  CHECK(parse_address("git+file:///x").scheme == Scheme::Git);
  CHECK(parse_address("https://h/a?b#c").place.path == "/a");
}

TEST_CASE("limits are a number of transfers and a size per second", "[limits]") {
  CHECK(parse_limits(Json::object()).parallel == 4);
  CHECK(parse_limits(Json::object()).bytes_per_second == 0);
  const TransferLimits limits = parse_limits({{"parallel", 1}, {"bandwidth", "10MB"}});
  CHECK(limits.parallel == 1);
  CHECK(limits.bytes_per_second == 10'000'000);
  CHECK(parse_limits({{"bandwidth", 7}}).bytes_per_second == 7);
  CHECK(parse_limits({{"bandwidth", 0}}).bytes_per_second == 0);
  for (const Json& bad : {Json(0), Json(-1), Json(1.5), Json("2"), Json()}) {
    CHECK_THROWS_AS(parse_limits({{"parallel", bad}}), Error);
  }
  for (const Json& bad : {Json(-1), Json(1.5), Json(true), Json()}) {
    CHECK_THROWS_WITH(parse_limits({{"bandwidth", bad}}),
                      Catch::StartsWith("bandwidth: must be a size per second"));
  }
}

TEST_CASE("each transfer has an equal share of the bandwidth, never zero", "[limits]") {
  const TransferLimits limits{.parallel = 4, .bytes_per_second = 100};
  CHECK(limits.threads(0) == 1);
  CHECK(limits.threads(3) == 3);
  CHECK(limits.threads(9) == 4);
  CHECK(limits.share(1) == 100);
  CHECK(limits.share(3) == 33);
  CHECK(limits.share(9) == 25);
  CHECK(TransferLimits{.parallel = 4, .bytes_per_second = 2}.share(4) == 1);
  CHECK(TransferLimits{.parallel = 4}.share(4) == 0);
}

TEST_CASE("listed files come in the order of their names", "[listed_names]") {
  const auto files = named_files(parse_address("ssh://h/set/"), {{"b", 1}, {"c", 2}, {"a", 3}});
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "a");
  CHECK(files[1].name == "b");
  CHECK(files[2].name == "c");
}
