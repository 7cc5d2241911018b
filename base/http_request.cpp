#include "base/http_request.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/error.h"

namespace dlflow {
namespace {

constexpr const char* kLocalhost = "localhost";

/// Quotes a value for curl's settings.
std::string quoted(const std::string& text) {
  if (text.find_first_of(std::string("\r\n\0", 3)) != text.npos) {
    throw Error(Errc::InvalidInput, "there is a line break in an address or header");
  }
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "\"";
}

/// "localhost:5000" -> "localhost" and "5000"; "[::1]" -> "::1" and "".
struct HostAndPort {
  std::string host, port;
};
HostAndPort split_host(const std::string& text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return {text, ""};
    return {text.substr(1, end - 1), text.substr(std::min(text.size(), end + 2))};
  }
  const size_t colon = text.find(':');
  return {text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
}

}  // namespace

HttpCall http_call(const HttpRequest& request) {
  const char* const protocols = request.needs_encryption ? "=https" : "=http,https";
  // --disable must come first: the user's settings in ~/.curlrc would change the meaning of the
  // others. Proxies come from http_proxy and the like.
  HttpCall call{{"curl", "--disable", "--silent", "--show-error", "--globoff", "--proto", protocols,
                 "--proto-redir", protocols, "--connect-timeout", "30", "--speed-limit", "1",
                 "--speed-time", "60", "--config", request.config},
                "url = " + quoted(request.url) + "\n"};
  if (request.follows) {
    call.argv.insert(call.argv.end(), {"--location", "--max-redirs", "10"});
  }
  call.argv.insert(call.argv.end(), request.options.begin(), request.options.end());
  for (const std::string& header : request.headers) {
    call.settings += "header = " + quoted(header) + "\n";
  }
  return call;
}

bool is_loopback(const std::string& host) {
  const std::string name = split_host(host).host;
  in_addr four{};
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  if (::inet_pton(AF_INET6, name.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return name == kLocalhost;
}

std::vector<std::string> stay_on_this_machine(const std::string& host) {
  const auto [name, port] = split_host(host);
  std::vector<std::string> options = {"--noproxy", "*"};
  if (name == kLocalhost) {
    options.insert(options.end(),
                   {"--resolve", name + ":" + (port.empty() ? "80" : port) + ":127.0.0.1"});
  }
  return options;
}

}  // namespace dlflow
