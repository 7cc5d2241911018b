#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "steps/stage/cache.h"
#include "steps/stage/download.h"
#include "steps/stage/request.h"

/// From an address to a verified file.
namespace dlflow::steps {

/// What an address holds.
struct Fetched {
  std::filesystem::path file;  ///< in the cache's workspace; empty if `unchanged`
  std::string sha256;
  std::string etag;        ///< of a server's answer, if it gave one
  bool unchanged = false;  ///< the server has what it had before: `known` of fetch()
};

/// What is known of an address from an earlier fetch.
struct KnownContent {
  std::string etag;
  std::string sha256;
};

/// Bytes so far, and all there will be if known.
using FetchProgress = std::function<void(uint64_t bytes, std::optional<uint64_t> total_bytes)>;

/// Brings what `source.url` holds now to a new file, the same declared hash or an error: then
/// Error{Corrupt} names both hashes and nothing of the content stays. If `known` is given and the
/// server still has that content, nothing is transferred.
/// `lock` is the lock that stands for the address; a download cut short is continued.
Fetched fetch(const Source& source, const std::optional<KnownContent>& known, Cache& cache,
              const FileLock& lock, const RetryPolicy& retry, const FetchProgress& progress);

/// The name of the lock and the partial download of an address.
std::string key_of(const Source& source);

}  // namespace dlflow::steps
