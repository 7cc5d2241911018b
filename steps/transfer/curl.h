#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// One run of the program curl.
namespace dlflow::steps {

/// The status and headers of a web server's answer.
struct HttpResponse {
  int status = 0;                       ///< 0: no answer yet
  std::optional<uint64_t> total_bytes;  ///< of the whole content, even if only a part was requested
  std::string etag;                     ///< with its quotes; empty if there is none
  std::string next;                     ///< address of a list's next page; empty on the last page
  std::string location;                 ///< target of a redirect, without the query
  std::string redirected;               ///< `location` of the previous answer; empty: none
};

/// Parses the output of `curl --dump-header`: the last of several answers (redirects), even if it
/// is incomplete.
HttpResponse parse_response(std::string_view headers);

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
