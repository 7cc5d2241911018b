#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "steps/stage/cache.h"
#include "steps/stage/request.h"
#include "steps/transfer/download.h"

/// Downloading an address to a verified file.
namespace dlflow::steps {

/// The content of an address.
struct Fetched {
  std::filesystem::path file;  ///< in the cache's workspace; empty if `unchanged`
  std::string key;             ///< the content's SHA-256; for a git source the commit
  std::string version;         ///< the server's version of the content, if it has one
  bool unchanged = false;      ///< the server still has the content `known` of fetch()
};

/// The content of an address at an earlier fetch.
struct KnownContent {
  std::string version;
  std::string key;
  std::filesystem::path file;  ///< empty if only its unpacked files are kept
};

struct FetchOptions {
  RetryPolicy retry = {};
  uint64_t bytes_per_second = 0;  ///< 0: no limit
  TransferProgress progress = [](uint64_t, std::optional<uint64_t>) {};
};

/// Fetches the one file (or commit) of `source` to a new file. If its hash is not the declared one,
/// throws Error{Corrupt} naming both hashes and keeps nothing of the content. Transfers nothing if
/// `known` is given and the server still has that content. `lock` is the lock for the address.
/// Continues an interrupted transfer.
Fetched fetch(const Source& source, const std::optional<KnownContent>& known, Cache& cache,
              const FileLock& lock, const FetchOptions& options);

/// The key for the lock and the partial download of an address.
std::string key_of(const Source& source);

}  // namespace dlflow::steps
