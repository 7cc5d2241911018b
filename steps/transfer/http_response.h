#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The status and headers of a web server's answer.
namespace dlflow::steps {

struct HttpResponse {
  int status = 0;                       ///< 0: no answer yet
  std::optional<uint64_t> total_bytes;  ///< of the whole content, also if only a part was asked for
  std::string etag;                     ///< with its quotes; empty if there is none
  std::string next;                     ///< address of the next page of a list; empty: the last
  std::string location;                 ///< of a redirect: where it leads, without the query
  std::string redirected;               ///< the `location` of the answer before; empty: none
};

/// Reads what `curl --dump-header` wrote: of several answers (redirects) the last, and of an
/// unfinished one what is there.
HttpResponse parse_response(std::string_view headers);

}  // namespace dlflow::steps
