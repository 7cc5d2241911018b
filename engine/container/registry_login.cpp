#include "engine/container/registry_login.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> login_files() {
  std::vector<fs::path> files;
  const auto add = [&files](const char* variable, const char* inner) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') files.push_back(fs::path(value) / inner);
  };
  if (const char* const file = std::getenv("REGISTRY_AUTH_FILE")) files.emplace_back(file);
  add("DOCKER_CONFIG", "config.json");
  add("XDG_RUNTIME_DIR", "containers/auth.json");
  add("HOME", ".config/containers/auth.json");
  add("HOME", ".docker/config.json");
  return files;
}

/// All names that tools may give a registry in such a file.
std::vector<std::string> names_of(const std::string& server) {
  const std::string host = server.substr(server.find("://") + 3);
  std::vector<std::string> names = {host, "https://" + host, "https://" + host + "/v2/"};
  if (host == "registry-1.docker.io") {
    names.insert(names.end(), {"https://index.docker.io/v1/", "index.docker.io", "docker.io"});
  }
  return names;
}

/// Refuses other text, which could be more than one value in curl's settings.
bool is_base64(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '=';
  });
}

void require_own_file(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 || (info.st_mode & 077) == 0) return;
  throw Error(
      Errc::InvalidInput,
      file.string() +
          " has passwords of registries, but other users can read it; type `chmod 600` for it");
}

/// The value of `key` in `Bearer realm="…",service="…"`.
std::string parameter(const std::string& challenge, const std::string& key) {
  const size_t begin = challenge.find(key + "=\"");
  if (begin == challenge.npos) return "";
  const size_t value = begin + key.size() + 2;
  return challenge.substr(value, challenge.find('"', value) - value);
}

/// RFC 6750, b64token: no character that ends a line or a quoted text in curl's settings.
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

std::string registry_login(const std::string& server) {
  for (const fs::path& file : login_files()) {
    const auto text = read_file_if_exists(file);
    if (!text) continue;
    const Json json = parse_json(*text, kForeignJson);
    if (!json.is_object() || !json.contains("auths") || !json.at("auths").is_object()) continue;
    for (const std::string& name : names_of(server)) {
      const Json entry = json.at("auths").value(name, Json::object());
      const std::string login =
          entry.is_object() && entry.contains("auth") && entry.at("auth").is_string()
              ? entry.at("auth").get<std::string>()
              : "";
      if (login.empty() || !is_base64(login)) continue;
      require_own_file(file);
      return login;
    }
  }
  return "";
}

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
