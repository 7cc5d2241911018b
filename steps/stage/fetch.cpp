#include "steps/stage/fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/stage/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

Error wrong_hash(const Source& source, const std::string& actual) {
  return Error(Errc::Corrupt, display_url(source.url) +
                                  " is not what the workflow declares: its SHA-256 is " + actual +
                                  ", declared is " + source.sha256 +
                                  ". If the new content is right, declare its hash");
}

Fetched copy_local_file(const Source& source, Cache& cache, const FetchProgress& progress) {
  if (!fs::is_regular_file(source.file)) {
    throw Error(Errc::NotFound,
                "cannot stage " + display_url(source.url) + ": there is no such file");
  }
  Fetched fetched{.file = cache.new_file(), .sha256 = {}, .etag = {}};
  const uint64_t total_bytes = fs::file_size(source.file);
  cache.make_room(total_bytes);
  const auto from = open_file(source.file);
  const FileDescriptor to(
      ::open(fetched.file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!to) throw_errno("cannot write " + fetched.file.string(), errno);
  Sha256 hash;
  std::vector<char> buffer(size_t{1} << 20);
  uint64_t bytes = 0;
  for (size_t got = from->read(buffer); got > 0; got = from->read(buffer)) {
    throw_if_stopped();
    hash.update({buffer.data(), got});
    write_all(to.get(), {buffer.data(), got}, fetched.file);
    progress(bytes += got, total_bytes);
  }
  fetched.sha256 = hash.hex();
  if (!source.sha256.empty() && fetched.sha256 != source.sha256) {
    throw wrong_hash(source, fetched.sha256);
  }
  return fetched;
}

/// Downloads once, hashes, and moves the result into the workspace.
Fetched download_to_workspace(const Source& source, const std::optional<KnownContent>& known,
                              Cache& cache, const FileLock& lock, const RetryPolicy& retry,
                              const FetchProgress& progress, bool& continued) {
  DownloadRequest request{.url = source.url,
                          .partial = cache.partial(key_of(source), lock),
                          .hash_is_known = !source.sha256.empty(),
                          .known_etag = known ? known->etag : "",
                          .progress = {}};
  bool has_room = false;
  request.progress = [&](uint64_t bytes, std::optional<uint64_t> total_bytes) {
    if (!has_room && total_bytes) {
      cache.make_room(*total_bytes);
      has_room = true;
    }
    progress(bytes, total_bytes);
  };
  const Downloaded downloaded = download(request, cache.new_file(), retry);
  continued = downloaded.continued;
  if (downloaded.unchanged) {
    return {.file = {}, .sha256 = known->sha256, .etag = known->etag, .unchanged = true};
  }
  Fetched fetched{.file = cache.new_file(), .sha256 = {}, .etag = downloaded.etag};
  if (!fs::exists(request.partial))
    write_file_atomic(request.partial, "");  // curl writes no empty file
  if (::rename(request.partial.c_str(), fetched.file.c_str()) != 0) {
    throw_errno("cannot write " + fetched.file.string(), errno);
  }
  fetched.sha256 = sha256_file(fetched.file, [](uint64_t) { throw_if_stopped(); });
  return fetched;
}

}  // namespace

Fetched fetch(const Source& source, const std::optional<KnownContent>& known, Cache& cache,
              const FileLock& lock, const RetryPolicy& retry, const FetchProgress& progress) {
  if (!source.file.empty()) return copy_local_file(source, cache, progress);
  while (true) {
    bool continued = false;
    Fetched fetched = download_to_workspace(source, known, cache, lock, retry, progress, continued);
    if (source.sha256.empty() || fetched.sha256 == source.sha256) return fetched;
    std::error_code ignored;
    fs::remove(fetched.file, ignored);
    // The first part may have been of another content; the whole is asked for once more.
    if (!continued) throw wrong_hash(source, fetched.sha256);
  }
}

std::string key_of(const Source& source) { return sha256_hex(source.url); }

}  // namespace dlflow::steps
