#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

/// Downloads, by the program curl: it knows proxies, certificates and protocols of the cluster, and
/// dlflow is a static program that cannot look up host names.
namespace dlflow::steps {

struct DownloadRequest {
  std::string url;

  /// Where the content goes. What an earlier download left there is continued if that is safe: the
  /// server says by a strong ETag (kept in `partial`.json) that it is the same content, or
  /// `hash_is_known`. It is left there by a failure that may go away, and by Stopped.
  std::filesystem::path partial;

  /// The content's hash will be compared with a declared one, so a wrong join would be noticed.
  bool hash_is_known = false;

  /// If the server's content still has this ETag, nothing is downloaded.
  std::string known_etag;

  /// Called every 20 ms with the bytes so far and all there will be, if known. What it throws ends
  /// the download.
  std::function<void(uint64_t bytes, std::optional<uint64_t> total_bytes)> progress;
};

/// How often a failed transfer is tried again. The wait doubles each time; a try that brought some
/// bytes starts the count again.
struct RetryPolicy {
  int max_tries = 5;
  std::chrono::milliseconds first_wait{1000};
};

struct Downloaded {
  bool unchanged = false;  ///< the content has the known ETag; `partial` was not made
  std::string etag;        ///< empty if the server gave none
  bool continued = false;  ///< the content was put together from several transfers
};

/// Downloads `request.url`. `temporary` is a file name that curl's messages may use. Throws Error
/// with curl's reason in words: Unavailable for what a later try may bring, NotFound, InvalidInput
/// or Corrupt for the rest. Throws Stopped; what was downloaded stays.
Downloaded download(const DownloadRequest& request, const std::filesystem::path& temporary,
                    const RetryPolicy& retry);

/// The size of what `url` holds, if the server tells.
std::optional<uint64_t> remote_size(const std::string& url, const std::filesystem::path& temporary);

}  // namespace dlflow::steps
