#include "engine/container/registry_token.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/text.h"

namespace dlflow {
namespace {

/// key="value" of `Bearer realm="…",service="…"`.
std::string parameter(const std::string& challenge, const std::string& key) {
  const size_t begin = challenge.find(key + "=\"");
  if (begin == challenge.npos) return "";
  const size_t value = begin + key.size() + 2;
  return challenge.substr(value, challenge.find('"', value) - value);
}

/// RFC 6750, b64token: nothing that ends a line or a quoted text of curl's settings.
bool is_token(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~+/=:").find(char(c)) != std::string_view::npos;
  });
}

Error odd_token(const std::string& server) {
  return {Errc::Corrupt, server + " does not ask for a token as registries do"};
}

}  // namespace

std::string challenge_in(const std::string& headers) {
  constexpr std::string_view kName = "www-authenticate:";
  std::string challenge;
  for (const std::string& line : split(headers, '\n')) {
    std::string name = line.substr(0, kName.size());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (name == kName) challenge = trim(std::string_view(line).substr(kName.size()));
  }
  return challenge;
}

bool asks_for_password(const std::string& challenge) {
  constexpr std::string_view kBasic = "basic";
  return std::ranges::equal(challenge.substr(0, kBasic.size()), kBasic,
                            [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
}

std::string token_address(const std::string& challenge, const std::string& repository,
                          const std::string& server) {
  const std::string realm = parameter(challenge, "realm");
  if (realm.empty()) return "";
  if (!realm.starts_with("https://") && !realm.starts_with("http://")) throw odd_token(server);
  return realm + "?service=" + parameter(challenge, "service") + "&scope=repository:" + repository +
         ":pull";
}

std::string token_in(const std::string& answer, const std::string& server) {
  const Json json = parse_json(answer, kForeignJson);
  if (!json.is_object()) return "";
  const Json token = json.value("token", json.value("access_token", Json("")));
  if (!token.is_string() || !is_token(token.get_ref<const std::string&>())) throw odd_token(server);
  return token;
}

}  // namespace dlflow
