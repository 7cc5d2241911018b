#include "steps/stage/staged_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/environment/place_file.h"
#include "steps/stage/unpack.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// Finds the content with the given `key`: its SHA-256, or a git commit.
std::optional<StagedSource> find_staged(const std::string& key, const Source& source,
                                        Cache& cache) {
  StagedSource staged;
  if (source.unpack == Unpack::None) {
    staged.listing[""] = {.sha256 = key, .executable = source.listed.executable, .link_target = {}};
  } else if (auto listing = remembered_listing(key, source.unpack, cache)) {
    staged.listing = std::move(*listing);
  } else {
    return std::nullopt;
  }
  for (auto& [name, file] : staged.listing) {
    if (!file.link_target.empty() || staged.contents.contains(file.sha256)) continue;
    auto path = cache.find(file.sha256);
    if (!path) return std::nullopt;
    file.bytes = fs::file_size(*path);
    staged.contents.emplace(file.sha256, std::move(*path));
  }
  return staged;
}

/// The key of the source's content if no server is needed to find it, else empty.
std::string known_key(const Source& source) {
  if (!source.pin().empty() || source.address.scheme != Scheme::File) return source.pin();
  return sha256_file(source.address.place.path, [](uint64_t) { throw_if_stopped(); });
}

std::string note_name(const Source& source) { return "urls/" + key_of(source) + ".json"; }

/// The content that a server had for this address before, if the cache still has its files.
std::optional<KnownContent> known_content(const Source& source, Cache& cache) {
  const auto note = cache.note(note_name(source));
  if (!note || !source.pin().empty()) return std::nullopt;
  KnownContent known{note->value("version", ""), note->value("sha256", ""), {}};
  if (known.version.empty()) return std::nullopt;
  const auto staged = find_staged(known.key, source, cache);
  if (!staged) return std::nullopt;
  if (source.unpack == Unpack::None) known.file = staged->contents.at(known.key);
  return known;
}

/// Adds fetched content to the cache, unpacked if requested.
void add_to_cache(const Source& source, const Fetched& fetched, Cache& cache) {
  if (source.unpack == Unpack::None) {
    cache.add(fetched.file, fetched.key);
  } else {
    try {
      unpack_to_cache(fetched.file, fetched.key, source.unpack, cache);
    } catch (const Error& error) {
      throw Error(error.code(), "cannot unpack " + source.display() + ": " + error.what());
    }
  }
  if (source.pin().empty() && !fetched.version.empty()) {
    cache.write_note(
        note_name(source),
        {{"url", source.display()}, {"version", fetched.version}, {"sha256", fetched.key}});
  }
}

}  // namespace

uint64_t StagedSource::bytes() const {
  uint64_t total = 0;
  for (const auto& [name, file] : listing) total += file.bytes;
  return total;
}

std::optional<StagedSource> find_staged(const Source& source, Cache& cache) {
  if (source.pin().empty()) return std::nullopt;
  return find_staged(source.pin(), source, cache);
}

StagedSource stage_source(const Source& source, Cache& cache, const FetchOptions& options) {
  const std::string key = known_key(source);
  if (!key.empty()) {
    if (auto staged = find_staged(key, source, cache)) return std::move(*staged);
  }
  const FileLock lock = cache.lock(key_of(source), "stages " + source.display());
  if (!key.empty()) {
    if (auto staged = find_staged(key, source, cache)) return std::move(*staged);
  }
  const Fetched fetched = fetch(source, known_content(source, cache), cache, lock, options);
  if (!fetched.unchanged) add_to_cache(source, fetched, cache);
  if (auto staged = find_staged(fetched.key, source, cache)) return std::move(*staged);
  throw Error(Errc::Unavailable,
              source.display() +
                  " was evicted from the cache before it could be used; other jobs "
                  "need its space just now, so try again");
}

void place(const StagedSource& staged, const fs::path& folder, const std::string& name) {
  for (const auto& [inner_name, file] : staged.listing) {
    throw_if_stopped();
    const fs::path path = inner_name.empty() ? folder / name : folder / name / inner_name;
    make_directories(path.parent_path());
    if (!file.link_target.empty()) {
      if (::symlink(file.link_target.c_str(), path.c_str()) != 0) {
        throw_errno("cannot write " + path.string(), errno);
      }
    } else if (file.executable) {  // a link would share the cached file's mode
      place_copy(staged.contents.at(file.sha256), path);
      if (::chmod(path.c_str(), 0555) != 0) throw_errno("cannot change " + path.string(), errno);
    } else {
      place_file(staged.contents.at(file.sha256), path);
    }
  }
}

}  // namespace dlflow::steps
