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
  std::string message;  ///< from standard error
};

/// Requests `url` with our common options and `arguments`. `temporary` is a prefix for names of
/// temporary files. `watch` is called every 20 ms with the response so far; it may throw.
/// `authorization` is a header that other users of the node cannot see; it is sent only to the host
/// of `url`. Throws like run_tool.
CurlResult run_curl(const std::string& url, const std::vector<std::string>& arguments,
                    const std::filesystem::path& temporary,
                    const std::function<void(const HttpResponse&)>& watch,
                    const std::string& authorization = "");

/// The error for a failure of curl: Error{Unavailable} if a retry may help. `url` is for display.
Error curl_error(const CurlResult& result, const std::string& url);

}  // namespace dlflow::steps
