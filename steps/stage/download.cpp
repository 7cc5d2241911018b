#include "steps/stage/download.h"

#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "steps/stage/curl.h"
#include "steps/stage/request.h"
#include "steps/stage/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr int kRangeError = 33;  // the server sends the whole content instead of the rest

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

/// A download that may be continued: the content so far and the ETag of what it is a part of.
class Partial {
 public:
  explicit Partial(const DownloadRequest& request)
      : content_(request.partial), note_(request.partial.string() + ".json") {
    const Json note = Json::parse(read_file_if_exists(note_).value_or(""), nullptr, false);
    if (note.is_object()) etag_ = note.value("etag", "");
    if (etag_.empty() && !request.hash_is_known) discard();
  }

  uint64_t bytes() const { return size_of(content_); }
  const std::string& etag() const { return etag_; }

  /// The content is, or will be, a part of what `response` speaks of.
  void belongs_to(const HttpResponse& response) {
    const std::string etag = response.has_strong_etag() ? response.etag : "";
    if (response.status < 200 || response.status >= 300 || etag == etag_) return;
    etag_ = etag;
    write_file_atomic(note_, Json({{"etag", etag_}}).dump());
  }

  void discard() {
    std::error_code ignored;
    fs::remove(content_, ignored);
    fs::remove(note_, ignored);
    etag_.clear();
  }

  void forget_note() {
    std::error_code ignored;
    fs::remove(note_, ignored);
  }

 private:
  fs::path content_;
  fs::path note_;
  std::string etag_;
};

void wait(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    throw_if_stopped();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

CurlResult transfer(const DownloadRequest& request, Partial& partial, const fs::path& temporary) {
  std::vector<std::string> arguments = {"--output", request.partial, "--url", request.url};
  const uint64_t offset = partial.bytes();
  if (offset > 0) {
    arguments.insert(arguments.end(), {"--continue-at", std::to_string(offset)});
    if (!partial.etag().empty()) {
      arguments.insert(arguments.end(), {"--header", "If-Range: " + partial.etag()});
    }
  } else if (!request.known_etag.empty()) {
    arguments.insert(arguments.end(), {"--header", "If-None-Match: " + request.known_etag});
  }
  return run_curl(arguments, temporary, [&](const HttpResponse& response) {
    if (response.status == 206 || (response.status == 200 && offset == 0)) {
      partial.belongs_to(response);
    }
    request.progress(partial.bytes(), response.total_bytes);
  });
}

/// The answer is about other content than the part that is here already.
bool is_of_other_content(const CurlResult& result, uint64_t offset, const std::string& etag,
                         uint64_t bytes_now) {
  if (offset == 0) return false;
  if (result.exit_status == kRangeError) return true;
  if (result.response.status == 416) return result.response.total_bytes != bytes_now;
  return result.response.status == 206 && !etag.empty() && result.response.etag != etag;
}

bool is_complete(const CurlResult& result, uint64_t bytes) {
  // 416: the part that is here already was all of it.
  if (result.response.status == 416) return result.response.total_bytes == bytes;
  return result.exit_status == 0 &&
         (!result.response.total_bytes || *result.response.total_bytes == bytes);
}

Error failure(const CurlResult& result, const DownloadRequest& request, uint64_t bytes) {
  const std::string url = display_url(request.url);
  if (result.exit_status != 0) return curl_error(result, url);
  return Error(Errc::Unavailable,
               "cannot download " + url + ": " + std::to_string(bytes) + " bytes came, " +
                   std::to_string(result.response.total_bytes.value_or(0)) + " were announced");
}

/// Tries until all is there. Throws what the last try failed with.
Downloaded download_all(const DownloadRequest& request, Partial& partial, const fs::path& temporary,
                        const RetryPolicy& retry) {
  Downloaded downloaded;
  auto next_wait = retry.first_wait;
  for (int tries = 1;; ++tries) {
    const uint64_t offset = partial.bytes();
    const std::string etag = partial.etag();
    const CurlResult result = transfer(request, partial, temporary);
    downloaded.etag = result.response.etag;
    if (result.response.status == 304) return {.unchanged = true, .etag = downloaded.etag};
    if (is_of_other_content(result, offset, etag, partial.bytes())) {
      partial.discard();
      downloaded.continued = false;
      continue;  // at most once: nothing is there to be continued now
    }
    downloaded.continued = downloaded.continued || offset > 0;
    if (is_complete(result, partial.bytes())) return downloaded;

    if (partial.bytes() > offset) {
      tries = 1;
      next_wait = retry.first_wait;
    }
    const Error error = failure(result, request, partial.bytes());
    if (!error.retryable() || tries >= retry.max_tries) throw error;
    std::printf("%s; trying again\n", error.what());
    std::fflush(stdout);
    wait(next_wait);
    next_wait *= 2;
  }
}

}  // namespace

Downloaded download(const DownloadRequest& request, const fs::path& temporary,
                    const RetryPolicy& retry) {
  Partial partial(request);
  try {
    Downloaded downloaded = download_all(request, partial, temporary, retry);
    partial.forget_note();
    return downloaded;
  } catch (const Error& error) {
    if (!error.retryable()) partial.discard();  // a full disk gets its space back
    throw;
  }
}

std::optional<uint64_t> remote_size(const std::string& url, const fs::path& temporary) {
  const CurlResult result =
      run_curl({"--head", "--max-time", "15", "--url", url}, temporary, [](const HttpResponse&) {});
  if (result.exit_status != 0) return std::nullopt;
  return result.response.total_bytes;
}

}  // namespace dlflow::steps
