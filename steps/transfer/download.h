#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/listed_names.h"

/// Downloads from another machine to a local file.
namespace dlflow::steps {

/// Receives the bytes so far, and the total if known.
using TransferProgress = std::function<void(uint64_t bytes, std::optional<uint64_t> total_bytes)>;

struct DownloadRequest {
  Address address;  ///< of a single file

  /// The file for the content. If an earlier download left a part there, it is continued if that is
  /// safe: if its version (kept in `partial`.json) is still the server's, or `hash_is_known`.
  /// Retryable failures and Stopped leave the part there.
  std::filesystem::path partial;

  /// The caller will compare the content's hash with a declared one, which detects a wrong join.
  bool hash_is_known = false;

  /// From a listing, if there was one.
  RemoteFile listed = {};

  /// The version of known content: if the server still has it, no download is needed. Over ssh and
  /// rclone a version is only size and time, which proves nothing, so the content is compared, too.
  std::string known_version = {};

  /// The content of `known_version`, and its hash; empty if it is not available as one file.
  std::filesystem::path known_file = {};
  std::string known_sha256 = {};

  uint64_t bytes_per_second = 0;   ///< 0: no limit
  std::string authorization = {};  ///< a secret header, for http(s) only

  /// Called every 20 ms. An exception from it ends the download.
  TransferProgress progress = [](uint64_t, std::optional<uint64_t>) {};
};

struct Downloaded {
  bool unchanged = false;    ///< the content is `known_version`; `partial` was not created
  std::string version = {};  ///< equal versions have equal contents; empty: unknown
  bool continued = false;    ///< the content was joined from several transfers
};

/// A resumable download: the content so far, and the version that it is a part of.
class Partial {
 public:
  /// Opens the part that an earlier download left at `content`, with its version in `content`.json.
  /// Without a version, discards it unless a declared hash (`hash_is_known`) reveals a wrong join.
  Partial(std::filesystem::path content, bool hash_is_known);

  uint64_t bytes() const;
  const std::string& version() const { return version_; }

  /// Sets the version that the content is, or will be, a part of.
  void belongs_to(const std::string& version);

  /// Must be called before each try: discards a part that may by now be of other content.
  void drop_unknown();

  void discard();
  void forget_version();

 private:
  std::filesystem::path content_;
  std::filesystem::path note_;
  bool hash_is_known_;
  std::string version_;
};

/// Downloads `request.address` over http(s), ssh or rclone, or from a hub. `temporary` is a prefix
/// for names of temporary files. Throws Error with the tool's reason: Unavailable if a later try
/// may succeed. Throws Stopped; the part downloaded so far stays.
Downloaded download(const DownloadRequest& request, const std::filesystem::path& temporary,
                    const RetryPolicy& retry);

}  // namespace dlflow::steps
