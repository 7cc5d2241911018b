#include "engine/container/registry.h"

#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/unit/steps/transfer/servers.h"

namespace dlflow {
namespace {

using Catch::Contains;

std::string answer(const std::string& status, const std::string& header, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\n" + header + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

/// A registry with one image, for whoever comes with a token. It has them fetched from `realm`, or
/// from itself, where `token` is the answer.
class TokenRegistry {
 public:
  explicit TokenRegistry(std::string token, std::string realm = "")
      : token_(std::move(token)), realm_(std::move(realm)) {}

  std::string digest() const { return registry_digest(server_.host() + "/a/b:c"); }

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

}  // namespace

TEST_CASE("a registry that asks for a token gets the one that it gave", "[container]") {
  CHECK(TokenRegistry(R"({"token": "aB3-._~+/=="})").digest() == "sha256:" + sha256_hex("{}"));
}

TEST_CASE("a token that would be more than a token in curl's settings is refused", "[container]") {
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
  CHECK_THROWS_WITH(
      registry_digest(server.host() + "/a/b:c"),
      Contains("names 'sha256:../../../../canary' where the digest of an image belongs"));
}

TEST_CASE("a manifest without an end is cut off", "[container][attack]") {
  const test::AnsweringServer server(
      [](const std::string&) { return std::string("HTTP/1.1 200 OK\r\n\r\n"); },
      test::AnsweringServer::Ends::Never);
  CHECK_THROWS_WITH(registry_digest(server.host() + "/a/b:c"),
                    Contains("sends more than the 4.0 MiB that are expected"));
}

TEST_CASE("a token is fetched from the web, and from nowhere else", "[container]") {
  const char* realm = GENERATE("file:///etc/passwd", "/etc/passwd", "-K/etc/passwd", "ftp://h/x");
  CHECK_THROWS_WITH(TokenRegistry("{}", realm).digest(),
                    Contains("does not ask for a token as registries do"));
}

}  // namespace dlflow
