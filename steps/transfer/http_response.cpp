#include "steps/transfer/http_response.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace dlflow::steps {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return char(std::tolower(letter)); });
  return lower;
}

void read_header(HttpResponse& response, std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string key = lower_case(line.substr(0, colon));
  const std::string_view value = trim(line.substr(colon + 1));
  if (key == "etag") {
    response.etag = value;
  } else if (key == "content-length" && response.status == 200) {
    response.total_bytes = number_from<uint64_t>(value);
  } else if (key == "link" && value.starts_with('<') && value.find("rel=\"next\"") != value.npos) {
    response.next = value.substr(1, value.find('>') - 1);
  } else if (key == "location") {
    response.location = value.substr(0, value.find('?'));  // the query may vary
  } else if (key == "content-range") {                     // "bytes 100-199/200", or "bytes */200"
    const size_t slash = value.find('/');
    if (slash != std::string_view::npos)
      response.total_bytes = number_from<uint64_t>(value.substr(slash + 1));
  }
}

}  // namespace

HttpResponse parse_response(std::string_view headers) {
  HttpResponse response;
  for (const std::string& line : split(std::string(headers), '\n')) {
    if (line.starts_with("HTTP/")) {
      std::string location = response.location.empty() ? response.redirected : response.location;
      response = {};
      response.redirected = std::move(location);
      const size_t space = line.find(' ');
      if (space != std::string::npos) {
        response.status =
            int(number_from<uint64_t>(std::string_view(line).substr(space + 1, 3)).value_or(0));
      }
    } else {
      read_header(response, line);
    }
  }
  return response;
}

}  // namespace dlflow::steps
