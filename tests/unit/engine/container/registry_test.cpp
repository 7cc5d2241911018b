#include "engine/container/registry.h"

#include <atomic>
#include <filesystem>

#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"
#include "tests/unit/steps/transfer/servers.h"

namespace dlflow {
namespace {

using Catch::Contains;

std::string answer(const std::string& status, const std::string& header, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\n" + header + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

/// A registry with one image, for any client with a token. Clients fetch tokens from `realm`, or
/// from this server, which answers `token`.
class TokenRegistry {
 public:
  explicit TokenRegistry(std::string token, std::string realm = "")
      : token_(std::move(token)), realm_(std::move(realm)) {}

  Digest digest() const { return registry_digest(server_.host() + "/a/b:c"); }

 private:
  std::string answer_to(const std::string& request) const {
    if (request.starts_with("GET /token?")) return answer("200 OK", "", token_);
    if (request.find("Authorization: Bearer ") != request.npos) return answer("200 OK", "", "{}");
    const std::string realm = realm_.empty() ? "http://" + server_.host() + "/token" : realm_;
    return answer("401 Unauthorized", "WWW-Authenticate: Bearer realm=\"" + realm + "\"\r\n", "");
  }

  std::string token_, realm_;
  test::AnsweringServer server_{[this](const std::string& request) { return answer_to(request); }};
};

/// A registry with one image whose manifest claims `size` bytes for its one layer.
class BoastingRegistry {
 public:
  explicit BoastingRegistry(std::string size) : size_(std::move(size)) {}

  void fetch(uint64_t budget_bytes) const {
    const test::TempDir folder;
    fetch_image(server_.host() + "/a/b", Digest::of_hex(sha256_hex(manifest())),
                folder.path() / "layout", budget_bytes);
  }
  int blobs_asked_for() const { return blobs_asked_for_; }

 private:
  static std::string digest_of(const std::string& content) {
    return "sha256:" + sha256_hex(content);
  }
  std::string manifest() const {
    return R"({"config": {"digest": ")" + digest_of(kConfig) + R"(", "size": 2}, "layers": [)" +
           R"({"digest": ")" + digest_of(kLayer) + R"(", "size": )" + size_ + "}]}";
  }
  std::string answer_to(const std::string& request) {
    if (request.find("/manifests/") != request.npos) return answer("200 OK", "", manifest());
    ++blobs_asked_for_;
    return answer("200 OK", "",
                  request.find(sha256_hex(kLayer)) == request.npos ? kConfig : kLayer);
  }

  inline static const std::string kConfig = "{}", kLayer = std::string(5000, 'l');
  std::string size_;
  std::atomic<int> blobs_asked_for_{0};
  test::AnsweringServer server_{[this](const std::string& request) { return answer_to(request); }};
};

}  // namespace

TEST_CASE("a registry that asks for a token gets the one that it issued", "[container]") {
  CHECK(TokenRegistry(R"({"token": "aB3-._~+/=="})").digest() == Digest::of_hex(sha256_hex("{}")));
}

TEST_CASE("a token that would add lines to curl's settings is refused", "[container]") {
  const char* token =
      GENERATE(R"({"token": "a\nurl = \"file:///etc/passwd\""})", R"({"access_token": "a\" "})",
               R"({"token": "a\\"})", R"({"token": "a\r"})", R"({"token": 7})");
  CHECK_THROWS_WITH(TokenRegistry(token).digest(),
                    Contains("does not ask for a token as registries do"));
}

TEST_CASE("a registry whose list of images names a path is refused", "[container][attack]") {
  const test::AnsweringServer server([](const std::string&) {
    return answer("200 OK", "", R"({"manifests": [{"digest": "sha256:../../../../canary"}]})");
  });
  CHECK_THROWS_WITH(registry_digest(server.host() + "/a/b:c"),
                    Contains("'sha256:../../../../canary' is not a digest"));
}

TEST_CASE("an endless manifest is refused at its size limit", "[container][attack]") {
  const test::AnsweringServer server(
      [](const std::string&) { return std::string("HTTP/1.1 200 OK\r\n\r\n"); },
      test::AnsweringServer::Ends::Never);
  CHECK_THROWS_WITH(registry_digest(server.host() + "/a/b:c"),
                    Contains("sends more than the 4.0 MiB expected"));
}

TEST_CASE("parts that exceed the cache's budget are refused before the first download",
          "[container][attack]") {
  const BoastingRegistry registry("5000");
  CHECK_THROWS_WITH(registry.fetch(5001),
                    Contains("has parts of 4.9 KiB together, but the cache may hold 4.9 KiB; "
                             "raise cache_budget: of the profile"));
  CHECK(registry.blobs_asked_for() == 0);
  registry.fetch(5002);
  CHECK(registry.blobs_asked_for() == 2);
}

TEST_CASE("without a budget, parts that exceed the disk are refused before the first download",
          "[container][attack]") {
  const char* size = GENERATE("9223372036854775807", "18446744073709551615");
  const BoastingRegistry registry(size);
  CHECK_THROWS_WITH(registry.fetch(0), Contains("/layout has room for "));
  CHECK(registry.blobs_asked_for() == 0);
}

TEST_CASE("a part is read no further than its manifest's size", "[container][attack]") {
  CHECK_THROWS_WITH(BoastingRegistry("4999").fetch(0),
                    Contains("sends more than the 4.9 KiB expected of"));
}

TEST_CASE("a part with an invalid size is refused", "[container][attack]") {
  const char* size = GENERATE("-1", "1e300", "\"5000\"", "null");
  CHECK_THROWS_WITH(BoastingRegistry(size).fetch(0), Contains("declares a part of "));
}

TEST_CASE("a private image is read with the login that docker keeps", "[container]") {
  const test::TempDir folder;
  const test::Variable config("DOCKER_CONFIG", folder.path());
  const bool gives_tokens = GENERATE(true, false);
  std::string host;
  test::AnsweringServer server([&](const std::string& request) {
    const bool is_user = request.find("Authorization: Basic bWU6cHc=\r") != request.npos;
    if (request.starts_with("GET /token?")) {
      return answer("200 OK", "", is_user ? R"({"token": "mine"})" : R"({"token": "public"})");
    }
    const bool may_read = gives_tokens ? request.find("Bearer mine\r") != request.npos : is_user;
    if (may_read) return answer("200 OK", "", "{}");
    const std::string challenge =
        gives_tokens ? "Bearer realm=\"http://" + host + "/token\"" : "Basic realm=\"x\"";
    return answer("401 Unauthorized", "WWW-Authenticate: " + challenge + "\r\n", "");
  });
  host = server.host();
  CHECK_THROWS_WITH(registry_digest(host + "/a/b:c"), Contains("`docker login`"));
  const auto file =
      folder.write("config.json", "{\"auths\": {\"" + host + "\": {\"auth\": \"bWU6cHc=\"}}}");
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  CHECK(registry_digest(host + "/a/b:c") == Digest::of_hex(sha256_hex("{}")));
  folder.write("config.json", "{\"auths\": {\"" + host + "\": {}, \"https://" + host +
                                  "\": {\"auth\": \"bWU6cHc=\"}}}");
  CHECK(registry_digest(host + "/a/b:c") ==
        Digest::of_hex(sha256_hex("{}")));  // under its other name
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  CHECK_THROWS_WITH(registry_digest(host + "/a/b:c"),
                    Contains("other users can read it; type `chmod 600`"));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  folder.write("config.json", "{\"auths\": {\"" + host + "\": {\"auth\": \"a\\nurl = x\"}}}");
  CHECK_THROWS_WITH(registry_digest(host + "/a/b:c"), Contains("that everybody may read"));
}

TEST_CASE("a token is fetched from the web, and from nowhere else", "[container]") {
  const char* realm = GENERATE("file:///etc/passwd", "/etc/passwd", "-K/etc/passwd", "ftp://h/x");
  CHECK_THROWS_WITH(TokenRegistry("{}", realm).digest(),
                    Contains("does not ask for a token as registries do"));
}

TEST_CASE("a private or missing image is reported", "[container]") {
  const std::string status = GENERATE("401 Unauthorized", "403 Forbidden", "404 Not Found");
  const test::AnsweringServer server([&](const std::string& request) {
    if (request.starts_with("GET /token?")) return answer("200 OK", "", R"({"token": "t"})");
    if (request.find("Authorization: Bearer ") == request.npos && status.starts_with("401")) {
      const std::string host = request.substr(request.find("Host: ") + 6);
      return answer(status,
                    "WWW-Authenticate: Bearer realm=\"http://" + host.substr(0, host.find('\r')) +
                        "/token\"\r\n",
                    "");
    }
    return answer(status, "", "");
  });
  CHECK_THROWS_WITH(registry_digest(server.host() + "/a/b:c"),
                    Contains("/a/b:c that everybody may read (status " + status.substr(0, 3) +
                             " for manifests/c)"));
}

TEST_CASE("a registry of this machine is asked without proxies and ~/.curlrc", "[container]") {
  const test::TempDir folder;
  folder.write(".curlrc", "proxy = \"http://127.0.0.1:1\"\nuser-agent = \"mine\"\n");
  const test::Variable curl_home("CURL_HOME", folder.path());
  const test::Variable proxy("http_proxy", "http://127.0.0.1:1");
  std::string agent;
  const test::AnsweringServer server([&](const std::string& request) {
    agent = request;
    return answer("200 OK", "", "{}");
  });
  CHECK(registry_digest(server.host() + "/a/b:c") == Digest::of_hex(sha256_hex("{}")));
  CHECK(agent.find("mine") == agent.npos);
}

TEST_CASE("a token is asked for with encryption only, except on this machine", "[container]") {
  CHECK_THROWS_WITH(TokenRegistry("{}", "http://tokens.example.org/token").digest(),
                    Contains("asks for a token request without encryption"));
}

TEST_CASE("a failing registry is reported with its answer", "[container]") {
  const test::AnsweringServer server(
      [](const std::string&) { return answer("500 Internal Server Error", "", ""); });
  CHECK_THROWS_WITH(registry_digest(server.host() + "/a/b:c"), Contains("answers with status 500"));
}

}  // namespace dlflow
