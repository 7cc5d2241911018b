#include "steps/transfer/http.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;
using Catch::Contains;
using test::DyingServer;
using test::Nginx;
namespace fs = std::filesystem;

namespace {

constexpr RetryPolicy kQuick{.max_tries = 3, .first_wait = 1ms};

/// A text in which every part differs from every other.
std::string numbers(size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i) + " ";
  text.resize(bytes);
  return text;
}

/// One address and the file for its download.
class Target {
 public:
  explicit Target(const std::string& url) : request_{.address = parse_address(url), .partial = {}} {
    request_.partial = folder_.path() / "partial";
    request_.progress = [this](uint64_t bytes, std::optional<uint64_t> total_bytes) {
      bytes_ = bytes;
      total_bytes_ = total_bytes;
    };
  }

  Downloaded download() { return steps::download(request_, folder_.path() / "curl", kQuick); }
  std::string content() const { return read_file(request_.partial); }
  DownloadRequest& request() { return request_; }
  std::optional<uint64_t> total_bytes() const { return total_bytes_; }
  uint64_t bytes() const { return bytes_; }

 private:
  test::TempDir folder_;
  DownloadRequest request_;
  uint64_t bytes_ = 0;
  std::optional<uint64_t> total_bytes_;
};

}  // namespace

TEST_CASE("a file is downloaded with its size and ETag", "[download]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const std::string text = numbers(100'000);
  nginx->serve("a file", text);
  Target target(nginx->url("a%20file"));
  const Downloaded downloaded = target.download();
  CHECK(target.content() == text);
  CHECK_FALSE(downloaded.continued);
  CHECK(downloaded.version.starts_with('"'));
  CHECK(target.bytes() == text.size());
  CHECK(target.total_bytes() == text.size());
  CHECK(http_size(target.request().address, target.request().partial) == text.size());

  target.request().known_version = downloaded.version;
  fs::remove(target.request().partial);
  CHECK(target.download().unchanged);
  CHECK(nginx->count_requests("\"GET /a%20file HTTP/1.1\" 304") == 1);
}

TEST_CASE("a weak ETag is not a version, since other bytes may have the same", "[download]") {
  std::string etag = "W/\"1\"";
  std::string content = "old";
  const test::AnsweringServer server([&](const std::string& request) {
    const bool is_known = request.find("If-None-Match: " + etag) != std::string::npos;
    const std::string tag = "ETag: " + etag + "\r\n";
    if (is_known) return "HTTP/1.1 304 Not Modified\r\n" + tag + "\r\n";
    return "HTTP/1.1 200 OK\r\n" + tag + "Content-Length: " + std::to_string(content.size()) +
           "\r\n\r\n" + content;
  });
  Target target("http://" + server.host() + "/file");
  CHECK(target.download().version.empty());
  content = "new";
  target.request().known_version = etag;  // an earlier dlflow took it for a version
  fs::remove(target.request().partial);
  CHECK_FALSE(target.download().unchanged);
  CHECK(target.content() == "new");
  etag = "\"1\"";
  fs::remove(target.request().partial);
  target.request().known_version = target.download().version;
  CHECK(target.request().known_version == etag);
  fs::remove(target.request().partial);
  CHECK(target.download().unchanged);
}

TEST_CASE("an ETag does not apply to the file that a later redirect leads to", "[download]") {
  std::string latest = "one";
  bool dies = false;
  const test::AnsweringServer server([&](const std::string& request) {
    if (request.starts_with("GET /latest ")) {
      return "HTTP/1.1 302 Found\r\nLocation: /" + latest +
             "?signed=" + std::to_string(request.size()) + "\r\nContent-Length: 0\r\n\r\n";
    }
    const bool is_known = request.find("If-None-Match: \"1\"") != std::string::npos;
    if (is_known) return std::string("HTTP/1.1 304 Not Modified\r\n\r\n");
    const std::string content = request.starts_with("GET /one?") ? "first" : "other";
    const bool is_rest = request.find("If-Range: \"1\"") != std::string::npos;
    if (is_rest && dies) return std::string("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    if (is_rest) {
      return "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 2-4/5\r\n"
             "Content-Length: 3\r\n\r\n" +
             content.substr(2);
    }
    return "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\n" +
           content.substr(0, dies ? 2 : 5);
  });
  Target target("http://" + server.host() + "/latest");
  target.request().known_version = target.download().version;
  CHECK(target.content() == "first");
  SECTION("that file is requested again") {
    fs::remove(target.request().partial);
    CHECK(target.download().unchanged);
    latest = "two";
    CHECK_FALSE(target.download().unchanged);
    CHECK(target.content() == "other");
  }
  SECTION("a part of that file is already here") {
    fs::remove(target.request().partial);
    target.request().known_version.clear();
    dies = true;
    latest = "two";
    CHECK_THROWS(target.download());
    dies = false;
    latest = "one";
    target.download();
    CHECK(target.content() == "first");
  }
}

TEST_CASE("an empty file is downloaded", "[download]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  Target target(nginx->serve("empty", ""));
  target.download();
  CHECK(target.total_bytes() == 0);
}

TEST_CASE("a download continues where the last one ended if the content is the same",
          "[download]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const std::string text = numbers(100'000);
  Target target(nginx->serve("file", text));
  const std::string etag = target.download().version;
  const auto leave_part = [&](size_t bytes, const std::string& note) {
    write_file_atomic(target.request().partial, text.substr(0, bytes));
    write_file_atomic(target.request().partial.string() + ".json", note);
  };

  leave_part(70'000, "{\"version\": " + Json(etag).dump() + "}");
  CHECK(target.download().continued);
  CHECK(target.content() == text);
  CHECK(nginx->count_requests("\"GET /file HTTP/1.1\" 206 30000 ") == 1);

  SECTION("the part is the whole") {
    leave_part(100'000, "{\"version\": " + Json(etag).dump() + "}");
    target.download();
    CHECK(nginx->count_requests("\"GET /file HTTP/1.1\" 416") == 1);
  }
  SECTION("the part has other content") {
    leave_part(70'000, R"({"version": "\"other\""})");
    CHECK_FALSE(target.download().continued);
  }
  SECTION("the part's content is unknown") {
    leave_part(70'000, "");
    CHECK_FALSE(target.download().continued);
  }
  SECTION("the hash will verify it") {
    leave_part(70'000, "");
    target.request().hash_is_known = true;
    CHECK(target.download().continued);
  }
  SECTION("the part is longer than the whole") {
    write_file_atomic(target.request().partial, text + "more");
    target.request().hash_is_known = true;
    CHECK_FALSE(target.download().continued);
  }
  CHECK(target.content() == text);
}

TEST_CASE("a connection that breaks is made again until the file is complete", "[download]") {
  const std::string text = numbers(3500);
  DyingServer server(text, {.bytes_per_connection = 1000});
  Target target(server.url());
  CHECK(target.download().continued);
  CHECK(target.content() == text);
  CHECK(server.num_connections() == 4);
}

TEST_CASE("a download without progress gives up, and keeps its part", "[download]") {
  const std::string text = numbers(3500);
  DyingServer server(text, {.bytes_per_connection = 0});
  Target target(server.url());
  write_file_atomic(target.request().partial, text.substr(0, 500));
  target.request().hash_is_known = true;
  CHECK_THAT(test::error_of([&] { target.download(); }, Errc::Unavailable),
             Contains("ended before all data had arrived"));
  CHECK(server.num_connections() == 3);
  CHECK(target.content() == text.substr(0, 500));
}

TEST_CASE("a server without support for ranges is asked for the whole file", "[download]") {
  const std::string text = numbers(3500);
  DyingServer server(text, {.bytes_per_connection = 9999, .knows_ranges = false});
  Target target(server.url());
  write_file_atomic(target.request().partial, "wrong");
  target.request().hash_is_known = true;
  CHECK_FALSE(target.download().continued);
  CHECK(target.content() == text);
}

TEST_CASE("a failure is reported with its meaning and whether to try again", "[download]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  struct Case {
    std::string url;
    Errc code;
    std::string message;
  };
  const uint16_t closed_port = test::bind_free_port().second;
  const std::vector<Case> cases = {
      {nginx->url("none"), Errc::NotFound, "answers 404: there is no such file"},
      {nginx->url("forbidden/x"), Errc::InvalidInput, "answers 403: access is denied"},
      {nginx->url("redirect/x"), Errc::InvalidInput, "does not support the protocol"},
      {"http://127.0.0.1:" + std::to_string(closed_port) + "/x", Errc::Unavailable,
       "the host refuses connections"},
      {"http://no.such.host.invalid/x", Errc::Unavailable, "the host's name cannot be resolved"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.url);
    Target target(bad.url);
    CHECK_THAT(test::error_of([&] { target.download(); }, bad.code), Contains(bad.message));
    CHECK_FALSE(fs::exists(target.request().partial));
  }
  CHECK(nginx->count_requests("\"GET /none HTTP/1.1\" 404") == 1);
}

TEST_CASE("an answer without the file is a temporary error", "[download]") {
  const std::string status = GENERATE("202 Accepted", "304 Not Modified");
  const test::AnsweringServer server([&](const std::string&) {
    return "HTTP/1.1 " + status + "\r\n" +
           (status.starts_with("304") ? "\r\n" : "Content-Length: 4\r\n\r\nwait");
  });
  Target target("http://" + server.host() + "/file");
  CHECK_THAT(test::error_of([&] { target.download(); }, Errc::Unavailable),
             Contains("answers with status " + status.substr(0, 3)));
}

TEST_CASE("a partial answer to a full request is not the file", "[download][attack]") {
  const std::string answer = GENERATE(
      "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n"
      "Content-Range: bytes 0-3/4\r\n\r\npart",
      "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\npart",
      "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n"
      "Content-Range: bytes */0\r\n\r\n");
  const test::AnsweringServer server([&](const std::string&) { return answer; });
  Target target("http://" + server.host() + "/file");
  CHECK_THROWS_WITH(target.download(), Contains("answers"));
  CHECK(Partial(target.request().partial, true).bytes() == 0);
}

TEST_CASE("an answer shorter than announced is an error with both sizes", "[download]") {
  const test::AnsweringServer server([](const std::string&) {
    return "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 3-9/10\r\n\r\n";
  });
  Target target("http://" + server.host() + "/file");
  write_file_atomic(target.request().partial, "the");
  target.request().hash_is_known = true;
  CHECK_THAT(test::error_of([&] { target.download(); }, Errc::Unavailable),
             Contains("3 bytes arrived, but 10 were announced"));
}

TEST_CASE("endless headers are cut off", "[download][attack]") {
  const std::string header = "X: " + std::string(60'000, 'x') + "\r\n";
  const test::AnsweringServer server([&](const std::string&) {
    std::string answer = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 40; ++i) answer += header;
    return answer;
  });
  Target target("http://" + server.host() + "/file");
  CHECK_THROWS_AS(target.download(), Error);
}

TEST_CASE("an address with a password is used but never shown", "[download]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const std::string url = nginx->serve("file", "content");
  const std::string secret = "http://me:secret@" + url.substr(7);
  Target target(secret);
  target.download();
  CHECK(target.content() == "content");
  Target missing(secret + "x?signature=secret");
  CHECK_THROWS_WITH(missing.download(),
                    Contains("filex?…: the server answers 404") && !Contains("secret"));
}
