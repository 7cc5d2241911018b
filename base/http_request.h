#pragma once

#include <string>
#include <vector>

/// HTTP requests through the program curl, which uses the proxies and certificates of a cluster; a
/// static program cannot look up host names itself.
namespace dlflow {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers = {};  ///< "Accept: text/plain"; never sent to another host
  std::vector<std::string> options =
      {};                         ///< further arguments of curl; the last of equal ones counts
  bool follows = false;           ///< follow redirects, at most ten
  bool needs_encryption = false;  ///< neither requests nor follows http://
  std::string config = "-";       ///< the file from which curl reads `settings`
};

/// The command line of curl. Address and headers are in `settings`, since other users of the node
/// can read the arguments of a program.
struct HttpCall {
  std::vector<std::string> argv;
  std::string settings;  ///< what curl reads from standard input or the file HttpRequest::config
};
HttpCall http_call(const HttpRequest& request);

/// Whether `host` ("localhost:5000", "127.0.0.1", "[::1]:80") is a loopback address, or the name
/// that RFC 6761 reserves for one. A name that only begins like one is not.
bool is_loopback(const std::string& host);

/// Options that keep a request to a loopback `host` on this machine, whatever resolver and proxies
/// do.
std::vector<std::string> stay_on_this_machine(const std::string& host);

}  // namespace dlflow
