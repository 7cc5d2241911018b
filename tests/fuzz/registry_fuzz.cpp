#include <cctype>

#include "base/error.h"
#include "engine/container/registry.h"
#include "engine/container/registry_login.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;

namespace {

/// Reads headers of a registry that demands a token. An address is passed to curl as one argument.
void read_headers(const std::string& headers) {
  const std::string challenge = challenge_in(headers);
  DLFLOW_CHECK(challenge.find('\n') == challenge.npos);
  const std::string address = token_address(challenge, "some/box", "the registry");
  DLFLOW_CHECK(address.empty() || address.starts_with("http://") ||
               address.starts_with("https://"));
}

/// Reads the answer of that address. A token is put into curl's settings, between quotes.
void read_token(const std::string& answer) {
  for (const unsigned char c : token_in(answer, "the registry")) {
    DLFLOW_CHECK(std::isprint(c) != 0 && c != '"' && c != '\\' && c != ' ');
  }
}

}  // namespace

/// The first byte gives the kind of the rest: 'h' headers, 't' a token, 'n' the name of an image.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  try {
    if (data[0] == 'h') read_headers(text);
    if (data[0] == 't') read_token(text);
    if (data[0] == 'n') DLFLOW_CHECK(registry_name(text).server.starts_with("http"));
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "hHTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer "
      "realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\"\r\n\r\n",
      "hHTTP/2 401\r\nwww-authenticate: Basic realm=\"x\"\r\nwww-authenticate: Bearer "
      "service=\"s\",realm=\"http://127.0.0.1:5000/t\r\n",
      R"(t{"token": "aB3-._~+/==", "expires_in": 300})",
      R"(t{"access_token": "a"})",
      "nghcr.io/owner/name:tag",
      "nlocalhost:5000/a/b:c",
      "npython"};
}
