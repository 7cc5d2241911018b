#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/remote_file.h"
#include "steps/transfer/retry.h"

/// From another machine to a file here.
namespace dlflow::steps {

/// Bytes so far, and all there will be if known.
using TransferProgress = std::function<void(uint64_t bytes, std::optional<uint64_t> total_bytes)>;

struct DownloadRequest {
  Address address;  ///< of one file

  /// Where the content goes. What an earlier download left there is continued if that is safe: its
  /// version (kept in `partial`.json) is still the server's, or `hash_is_known`. It is left there
  /// by a failure that may go away, and by Stopped.
  std::filesystem::path partial;

  /// The content's hash will be compared with a declared one, so a wrong join would be noticed.
  bool hash_is_known = false;

  /// What a listing told, if there was one.
  RemoteFile listed = {};

  /// If the server's content still is this version, nothing is downloaded. A version that is no
  /// more than size and time proves nothing: over ssh and rclone the content is compared, too.
  std::string known_version = {};

  /// The content of `known_version`, and its hash; empty if it is not there in one file.
  std::filesystem::path known_file = {};
  std::string known_sha256 = {};

  uint64_t bytes_per_second = 0;   ///< 0: no limit
  std::string authorization = {};  ///< a secret header, of http(s) alone

  /// Called every 20 ms. What it throws ends the download.
  TransferProgress progress = [](uint64_t, std::optional<uint64_t>) {};
};

struct Downloaded {
  bool unchanged = false;    ///< the content is the known version; `partial` was not made
  std::string version = {};  ///< two contents with the same one are the same; empty: not known
  bool continued = false;    ///< the content was put together from several transfers
};

/// Downloads `request.address` over http(s), ssh or rclone, or of a hub. `temporary` begins the
/// names of files that may be used. Throws Error with the tool's reason: Unavailable for what a
/// later try may bring. Throws Stopped; what was downloaded stays.
Downloaded download(const DownloadRequest& request, const std::filesystem::path& temporary,
                    const RetryPolicy& retry);

}  // namespace dlflow::steps
