#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "steps/transfer/http_response.h"

/// One run of the program curl.
namespace dlflow::steps {

struct CurlResult {
  int exit_status = 0;
  HttpResponse response;
  std::string message;  ///< what curl wrote on standard error
};

/// Asks for `url` with what every request of ours has in common and with `arguments`. `temporary`
/// begins the names of files that may be used. `watch` is called every 20 ms with what the server
/// has said so far; it may throw. `authorization` is a header that nobody else on the node is to
/// see; it goes to the host of `url` alone. Throws as run_tool.
CurlResult run_curl(const std::string& url, const std::vector<std::string>& arguments,
                    const std::filesystem::path& temporary,
                    const std::function<void(const HttpResponse&)>& watch,
                    const std::string& authorization = "");

/// The error for a failure of curl: Error{Unavailable} if trying again may help. `url` is for
/// display.
Error curl_error(const CurlResult& result, const std::string& url);

}  // namespace dlflow::steps
