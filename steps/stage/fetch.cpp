#include "steps/stage/fetch.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/transfer/git.h"
#include "steps/transfer/local.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

Error wrong_hash(const Source& source, const std::string& actual) {
  return Error(Errc::Corrupt, source.display() +
                                  " is not what the workflow declares: its SHA-256 is " + actual +
                                  ", but the declared one is " + source.sha256 +
                                  ". If the new content is right, declare its hash");
}

/// Moves a finished download into the workspace, where no other job continues it.
fs::path take(const fs::path& partial, Cache& cache) {
  fs::path file = cache.new_file();
  if (::rename(partial.c_str(), file.c_str()) != 0) {
    throw_errno("cannot write " + file.string(), errno);
  }
  return file;
}

Fetched copy_local_file(const Source& source, Cache& cache, const FileLock& lock,
                        const FetchOptions& options) {
  const fs::path& from = source.address.place.path;
  const uint64_t total_bytes = source.listed.bytes.value_or(0);
  cache.make_room(total_bytes);
  const fs::path partial = cache.partial(key_of(source), lock);
  Fetched fetched;
  try {
    fetched.key = copy_file(from, partial, options.bytes_per_second,
                            [&](uint64_t bytes) { options.progress(bytes, total_bytes); });
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(partial, ignored);  // frees space on a full disk
    throw;
  }
  fetched.file = take(partial, cache);
  if (!source.sha256.empty() && fetched.key != source.sha256) {
    throw wrong_hash(source, fetched.key);
  }
  return fetched;
}

Fetched fetch_commit(const Source& source, Cache& cache, const RetryPolicy& retry) {
  Fetched fetched{.file = cache.new_file(), .key = source.commit, .version = {}};
  git_archive(source.address, source.commit, cache.new_file(), fetched.file, retry);
  return fetched;
}

/// Makes room for the size that a server announces, or step by step: it may announce nothing, or
/// less than it sends. `room` is the size for which there is room already.
void make_room(Cache& cache, uint64_t bytes, std::optional<uint64_t> total_bytes, uint64_t& room) {
  constexpr uint64_t kAhead = uint64_t{64} << 20;
  if (total_bytes && *total_bytes > room) {
    room = *total_bytes;
  } else if (bytes > room) {
    const uint64_t budget = cache.budget_bytes();
    room = budget == 0 ? bytes + kAhead : std::max(bytes, std::min(bytes + kAhead, budget));
  } else {
    return;
  }
  cache.make_room(room);
}

/// Downloads once, hashes, and moves the result into the workspace.
Fetched download_to_workspace(const Source& source, const std::optional<KnownContent>& known,
                              Cache& cache, const FileLock& lock, const FetchOptions& options,
                              bool& continued) {
  DownloadRequest request{.address = source.address,
                          .partial = cache.partial(key_of(source), lock),
                          .hash_is_known = !source.sha256.empty(),
                          .listed = source.listed,
                          .known_version = known ? known->version : "",
                          .known_file = known ? known->file : fs::path(),
                          .known_sha256 = known ? known->key : "",
                          .bytes_per_second = options.bytes_per_second};
  uint64_t room = 0;
  request.progress = [&](uint64_t bytes, std::optional<uint64_t> total_bytes) {
    make_room(cache, bytes, total_bytes, room);
    options.progress(bytes, total_bytes);
  };
  const Downloaded downloaded = download(request, cache.new_file(), options.retry);
  continued = downloaded.continued;
  if (downloaded.unchanged) {
    return {.file = {}, .key = known->key, .version = known->version, .unchanged = true};
  }
  if (!fs::exists(request.partial)) {
    write_file_atomic(request.partial, "");  // curl creates no file for empty content
  }
  Fetched fetched{.file = take(request.partial, cache), .key = {}, .version = downloaded.version};
  fetched.key = sha256_file(fetched.file, [](uint64_t) { throw_if_stopped(); });
  return fetched;
}

}  // namespace

Fetched fetch(const Source& source, const std::optional<KnownContent>& known, Cache& cache,
              const FileLock& lock, const FetchOptions& options) {
  if (source.address.scheme == Scheme::File) return copy_local_file(source, cache, lock, options);
  if (source.address.scheme == Scheme::Git) return fetch_commit(source, cache, options.retry);
  while (true) {
    bool continued = false;
    Fetched fetched = download_to_workspace(source, known, cache, lock, options, continued);
    if (source.sha256.empty() || fetched.key == source.sha256) return fetched;
    std::error_code ignored;
    fs::remove(fetched.file, ignored);
    // The first part may come from other content: download the whole file once more.
    if (!continued) throw wrong_hash(source, fetched.key);
  }
}

std::string key_of(const Source& source) { return sha256_hex(source.address.url); }

}  // namespace dlflow::steps
