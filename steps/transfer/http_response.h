#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The status and headers of a web server's answer.
namespace dlflow::steps {

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

}  // namespace dlflow::steps
