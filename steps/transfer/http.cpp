#include "steps/transfer/http.h"

#include "base/error.h"
#include "steps/transfer/curl.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr int kRangeError = 33;  // the server ignores the range and sends everything

/// A weak ETag is not a version: other bytes may have the same one.
bool is_version(const std::string& etag) { return etag.starts_with('"'); }

/// Includes the target of a redirect: an ETag is valid for one address only.
std::string version_of(const HttpResponse& response) {
  if (!is_version(response.etag)) return "";
  return response.etag + (response.redirected.empty() ? "" : " " + response.redirected);
}

std::string etag_in(const std::string& version) {
  return version.substr(0, version.find('"', 1) + 1);
}

/// Compares only the address, since a 304 may lack the ETag.
bool is_of_same_place(const HttpResponse& response, const std::string& version) {
  const std::string place = version.substr(etag_in(version).size());
  return place == (response.redirected.empty() ? "" : " " + response.redirected);
}

CurlResult transfer(const DownloadRequest& request, Partial& partial, const fs::path& temporary) {
  std::vector<std::string> arguments = {"--output", request.partial};
  const uint64_t offset = partial.bytes();
  if (offset > 0) {
    arguments.insert(arguments.end(), {"--continue-at", std::to_string(offset)});
    if (!partial.version().empty()) {
      arguments.insert(arguments.end(), {"--header", "If-Range: " + etag_in(partial.version())});
    }
  } else if (is_version(request.known_version)) {
    arguments.insert(arguments.end(),
                     {"--header", "If-None-Match: " + etag_in(request.known_version)});
  }
  if (request.bytes_per_second > 0) {
    arguments.insert(arguments.end(), {"--limit-rate", std::to_string(request.bytes_per_second)});
  }
  return run_curl(
      request.address.url, arguments, temporary,
      [&](const HttpResponse& response) {
        if (response.status == 200 && offset == 0) {
          partial.belongs_to(version_of(response));
        }
        request.progress(partial.bytes(), response.total_bytes);
      },
      request.authorization);
}

/// Whether the answer concerns other content than the part downloaded before.
bool is_of_other_content(const CurlResult& result, uint64_t offset, const std::string& version,
                         uint64_t bytes_now) {
  if (offset == 0) return false;
  if (result.exit_status == kRangeError) return true;
  if (result.response.status == 416) return result.response.total_bytes != bytes_now;
  return result.response.status == 206 && !version.empty() &&
         version_of(result.response) != version;
}

/// `offset`: 0 if the whole content was requested; 416 and 206 are then wrong answers.
bool is_complete(const CurlResult& result, uint64_t offset, uint64_t bytes) {
  // 416: the part downloaded before was already complete.
  if (result.response.status == 416) return offset > 0 && result.response.total_bytes == bytes;
  const bool has_content =
      result.response.status == 200 || (result.response.status == 206 && offset > 0);
  return result.exit_status == 0 && has_content &&
         (!result.response.total_bytes || *result.response.total_bytes == bytes);
}

Error failure(const CurlResult& result, const DownloadRequest& request, uint64_t offset,
              uint64_t bytes) {
  const std::string url = request.address.display();
  if (result.exit_status != 0) return curl_error(result, url);
  const int status = result.response.status;
  if (status != 200 && (status != 206 || offset == 0)) {
    return Error(Errc::Unavailable, "cannot download " + url + ": the server answers with status " +
                                        std::to_string(status) + " and not with the file");
  }
  return Error(Errc::Unavailable,
               "cannot download " + url + ": " + std::to_string(bytes) + " bytes arrived, but " +
                   std::to_string(result.response.total_bytes.value_or(0)) + " were announced");
}

/// One try. `continued` is true if an earlier try downloaded a part of the content.
Downloaded download_once(const DownloadRequest& request, Partial& partial,
                         const fs::path& temporary, bool& continued) {
  partial.drop_unknown();
  const uint64_t offset = partial.bytes();
  const std::string version = partial.version();
  const CurlResult result = transfer(request, partial, temporary);
  const bool asked = offset == 0 && is_version(request.known_version);
  if (result.response.status == 304 && asked) {
    if (is_of_same_place(result.response, request.known_version)) {
      return {.unchanged = true, .version = request.known_version};
    }
    DownloadRequest anew = request;
    anew.known_version.clear();
    return download_once(anew, partial, temporary, continued);
  }
  if (is_of_other_content(result, offset, version, partial.bytes())) {
    partial.discard();
    continued = false;  // recurses only once: offset is now 0
    return download_once(request, partial, temporary, continued);
  }
  continued = continued || offset > 0;
  if (!is_complete(result, offset, partial.bytes())) {
    const Error error = failure(result, request, offset, partial.bytes());
    if (offset == 0 && result.response.status == 206) partial.discard();  // an unrequested part
    throw error;
  }
  return {.version = version_of(result.response), .continued = continued};
}

}  // namespace

Downloaded http_download(const DownloadRequest& request, Partial& partial,
                         const fs::path& temporary, const RetryPolicy& retry) {
  Downloaded downloaded;
  bool continued = false;
  with_retries(
      retry, [&] { return partial.bytes(); },
      [&] { downloaded = download_once(request, partial, temporary, continued); });
  return downloaded;
}

std::optional<uint64_t> http_size(const Address& address, const fs::path& temporary) {
  const CurlResult result =
      run_curl(address.url, {"--head", "--max-time", "15"}, temporary, [](const HttpResponse&) {});
  if (result.exit_status != 0) return std::nullopt;
  return result.response.total_bytes;
}

}  // namespace dlflow::steps
