#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "steps/stage/http_response.h"

/// One run of the program curl.
namespace dlflow::steps {

struct CurlResult {
  int exit_status = 0;
  HttpResponse response;
  std::string message;  ///< what curl wrote on standard error
};

/// Runs curl with what every request of ours has in common and with `arguments`. `temporary` begins
/// the names of two files it may use. `watch` is called every 20 ms with what the
/// server has said so far; if it throws, curl is ended first. Throws Error{NotFound} without curl.
CurlResult run_curl(const std::vector<std::string>& arguments,
                    const std::filesystem::path& temporary,
                    const std::function<void(const HttpResponse&)>& watch);

/// What a failure of curl means: Error{Unavailable} if trying again may help. `url` is for display.
Error curl_error(const CurlResult& result, const std::string& url);

}  // namespace dlflow::steps
