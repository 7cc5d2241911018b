#include "steps/transfer/download.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "steps/transfer/http.h"
#include "steps/transfer/hub.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/rclone.h"
#include "steps/transfer/rsync.h"

namespace dlflow::steps {
namespace {

/// Whether the known content is still the listed one. A hub's version is a hash of the content.
bool is_unchanged(const DownloadRequest& request, const std::filesystem::path& temporary) {
  const std::string& version = request.listed.version;
  if (version.empty() || version != request.known_version) return false;
  if (request.address.scheme == Scheme::Hub) return true;
  if (request.known_file.empty()) return false;
  return request.address.scheme == Scheme::Ssh ? rsync_has_known_content(request, temporary)
                                               : rclone_has_known_content(request, temporary);
}

Downloaded download(const DownloadRequest& request, Partial& partial,
                    const std::filesystem::path& temporary, const RetryPolicy& retry) {
  if (request.address.scheme == Scheme::Http) {
    return http_download(request, partial, temporary, retry);
  }
  if (is_unchanged(request, temporary)) {
    return {.unchanged = true, .version = request.known_version};
  }
  if (request.address.scheme == Scheme::Hub) {
    return hub_download(request, partial, temporary, retry);
  }
  DLFLOW_CHECK(request.address.scheme == Scheme::Ssh || request.address.scheme == Scheme::Rclone);
  return request.address.scheme == Scheme::Ssh
             ? rsync_download(request, partial, temporary, retry)
             : rclone_download(request, partial, temporary, retry);
}

}  // namespace

Partial::Partial(std::filesystem::path content, bool hash_is_known)
    : content_(std::move(content)),
      note_(content_.string() + ".json"),
      hash_is_known_(hash_is_known) {
  const Json note = parse_json(read_file_if_exists(note_).value_or(""));
  if (note.is_object()) version_ = note.value("version", "");
  drop_unknown();
}

void Partial::drop_unknown() {
  if (version_.empty() && !hash_is_known_) discard();
}

uint64_t Partial::bytes() const { return size_or_zero(content_); }

void Partial::belongs_to(const std::string& version) {
  if (version == version_) return;
  version_ = version;
  write_file_atomic(note_, Json({{"version", version_}}).dump());
}

void Partial::discard() {
  std::error_code ignored;
  std::filesystem::remove(content_, ignored);
  forget_version();
}

void Partial::forget_version() {
  std::error_code ignored;
  std::filesystem::remove(note_, ignored);
  version_.clear();
}

Downloaded download(const DownloadRequest& request, const std::filesystem::path& temporary,
                    const RetryPolicy& retry) {
  Partial partial(request.partial, request.hash_is_known);
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t kept_bytes = partial.bytes();
  try {
    Downloaded downloaded = download(request, partial, temporary, retry);
    const uint64_t bytes = partial.bytes();
    keep_pace(begin, bytes - std::min(bytes, kept_bytes), request.bytes_per_second);
    partial.forget_version();
    return downloaded;
  } catch (const Error& error) {
    if (!error.retryable()) partial.discard();  // frees space on a full disk
    throw;
  }
}

}  // namespace dlflow::steps
