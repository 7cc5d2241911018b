#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "steps/stage/cache.h"
#include "steps/stage/request.h"
#include "steps/transfer/download.h"

/// From an address to a verified file.
namespace dlflow::steps {

/// The content of an address.
struct Fetched {
  std::filesystem::path file;  ///< in the cache's workspace; empty if `unchanged`
  std::string key;             ///< the content's SHA-256; of a git source the commit
  std::string version;         ///< what tells whether a server's content has changed, if known
  bool unchanged = false;      ///< the server has what it had before: `known` of fetch()
};

/// The content of an address as an earlier fetch found it.
struct KnownContent {
  std::string version;
  std::string key;
  std::filesystem::path file;  ///< empty if only what was unpacked from it is kept
};

struct FetchOptions {
  RetryPolicy retry = {};
  uint64_t bytes_per_second = 0;  ///< 0: no limit
  TransferProgress progress = [](uint64_t, std::optional<uint64_t>) {};
};

/// Brings what the one file (or commit) of `source` holds now to a new file, the same declared hash
/// or an error: then Error{Corrupt} names both hashes and nothing of the content stays. If `known`
/// is given and the server still has that content, nothing is transferred.
/// `lock` is the lock that stands for the address; a transfer cut short is continued.
Fetched fetch(const Source& source, const std::optional<KnownContent>& known, Cache& cache,
              const FileLock& lock, const FetchOptions& options);

/// The name of the lock and the partial download of an address.
std::string key_of(const Source& source);

}  // namespace dlflow::steps
