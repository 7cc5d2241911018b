#include "steps/transfer/curl.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/file.h"
#include "base/http_request.h"
#include "base/text.h"
#include "steps/transfer/tool.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr int kHttpError = 22;

/// The exit statuses of curl(1), EXIT CODES, that a download may have.
struct ExitMeaning {
  int exit_status;
  Errc code;
  const char* words;
};
constexpr ExitMeaning kExitMeanings[] = {
    {1, Errc::InvalidInput, "this curl does not support the protocol"},
    {3, Errc::InvalidInput, "the address is malformed"},
    {5, Errc::Unavailable, "the proxy's name cannot be resolved"},
    {6, Errc::Unavailable, "the host's name cannot be resolved"},
    {7, Errc::Unavailable, "the host refuses connections"},
    {18, Errc::Unavailable, "the connection ended before all data had arrived"},
    {23, Errc::InvalidInput, "the file cannot be written; is the disk full?"},
    {28, Errc::Unavailable, "the host does not answer, or too slowly"},
    {35, Errc::Unavailable, "no encrypted connection could be made"},
    {47, Errc::InvalidInput, "there are too many redirects"},
    {52, Errc::Unavailable, "the host sent nothing"},
    {55, Errc::Unavailable, "the connection broke"},
    {56, Errc::Unavailable, "the connection broke"},
    {60, Errc::InvalidInput, "the host's certificate is not trusted"},
    {92, Errc::Unavailable, "the connection broke"},
};

Error http_error(int status, const std::string& url) {
  const std::string code = "the server answers " + std::to_string(status);
  const std::string where = "cannot download " + url + ": ";
  if (status == 404 || status == 410) {
    return Error(Errc::NotFound, where + code + ": there is no such file");
  }
  if (status == 401 || status == 403) {
    return Error(Errc::InvalidInput, where + code + ": access is denied");
  }
  const bool transient = status == 408 || status == 429 || status >= 500 || status == 0;
  return Error(transient ? Errc::Unavailable : Errc::InvalidInput, where + code);
}

/// The server's headers so far. Throws Error if they exceed 1 MiB.
std::string headers_in(const fs::path& file) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  return fs::exists(file) ? read_file(file, kMaxBytes) : "";
}

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

CurlResult run_curl(const std::string& url, const std::vector<std::string>& arguments,
                    const fs::path& temporary,
                    const std::function<void(const HttpResponse&)>& watch,
                    const std::string& authorization) {
  const fs::path headers = temporary.string() + ".headers";
  const fs::path config = temporary.string() + ".config";
  std::error_code ignored;
  fs::remove(headers, ignored);
  HttpRequest request{.url = url,
                      .options = {"--fail", "--dump-header", headers},
                      .follows = true,
                      .config = config};
  if (!authorization.empty()) request.headers = {"Authorization: " + authorization};
  request.options.insert(request.options.end(), arguments.begin(), arguments.end());
  const HttpCall call = http_call(request);
  write_file_atomic(config, call.settings);
  const Tool tool{.argv = call.argv, .temporary = temporary};

  CurlResult result;
  const ToolResult run = run_tool(tool, [&](const ToolResult&) {
    result.response = parse_response(headers_in(headers));
    watch(result.response);
  });
  result.exit_status = run.exit_status;
  result.message = run.message;
  return result;
}

Error curl_error(const CurlResult& result, const std::string& url) {
  if (result.exit_status == kHttpError) return http_error(result.response.status, url);
  const auto meaning = std::find_if(
      std::begin(kExitMeanings), std::end(kExitMeanings),
      [&](const ExitMeaning& candidate) { return candidate.exit_status == result.exit_status; });
  const bool known = meaning != std::end(kExitMeanings);
  return Error(
      known ? meaning->code : Errc::InvalidInput,
      "cannot download " + url + ": " + (known ? meaning->words : "curl failed") + " (" +
          (result.message.empty() ? "curl's exit status is " + std::to_string(result.exit_status)
                                  : result.message) +
          ")");
}

}  // namespace dlflow::steps
