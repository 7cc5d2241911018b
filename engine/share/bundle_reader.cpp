#include "engine/share/bundle_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "base/units.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;

Manifest parse_manifest(const std::string& text) {
  return manifest_from_json(parse_json_or_throw(
      text, kManifestName,
      {.max_depth = kForeignJson.max_depth, .max_bytes = size_t(kMaxManifestBytes)}));
}

Manifest first_entry(ZipReader& zip) {
  const ZipEntry& entry = zip.entries().front();
  if (entry.name != kManifestName) {
    throw Error(Errc::InvalidInput, std::string("it is not a bundle: it does not begin with ") +
                                        kManifestName + "; `dlflow pack` makes bundles");
  }
  return parse_manifest(zip.read_text(entry, kMaxManifestBytes));
}

Error taken(const fs::path& folder) {
  return Error(Errc::InvalidInput,
               folder.string() + " already exists; remove it, or choose another folder with -C");
}

/// The absolute path of a folder that is empty or missing. Creates its parents.
fs::path free_place(const fs::path& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  std::error_code ignored;
  if (fs::exists(place, ignored) && !fs::is_empty(place, ignored)) throw taken(place);
  make_directories(place.parent_path());
  return place;
}

void write_entry(ZipReader& zip, const ZipEntry& entry, const std::string& sha256,
                 const fs::path& path) {
  // Creation fails if a file system treats two names as equal: letters of either case, forms of
  // Unicode.
  const FileDescriptor file =
      open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, entry.mode & 0777);
  Sha256 hash;
  zip.read(entry, [&](std::string_view bytes) {
    hash.update(bytes);
    write_all(file.get(), bytes, path);
  });
  if (hash.hex() != sha256) {
    throw Error(Errc::Corrupt, "'" + entry.name + "' is not what was packed: its checksum differs");
  }
}

}  // namespace

bool is_bundle(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string begin(4, '\0');
  return stream.read(begin.data(), std::streamsize(begin.size())) && begin == "PK\3\4";
}

BundleReader::BundleReader(const fs::path& file) try
    : path_(file), zip_(file), manifest_(first_entry(zip_)) {
  check_entries();
} catch (const Error& error) {
  const std::string what = error.what();
  if (error.code() == Errc::Corrupt && !is_bundle(file)) {
    throw Error(Errc::InvalidInput,
                file.string() + " is not a bundle of dlflow; `dlflow pack` makes bundles");
  }
  const bool named = what.find(file.string()) != what.npos;
  throw Error(error.code(), named ? what : file.string() + ": " + what);
}

void BundleReader::check_entries() const {
  uint64_t total_bytes = 0;
  for (const ZipEntry& entry : zip_.entries()) {
    if (entry.bytes > UINT64_MAX / 2 - total_bytes) {
      throw Error(Errc::Corrupt, "'" + entry.name + "' is impossibly large");
    }
    total_bytes += entry.bytes;
    if (&entry == &zip_.entries().front()) continue;  // the manifest
    const auto listed = manifest_.files.find(entry.name);
    if (listed == manifest_.files.end()) {
      throw Error(Errc::InvalidInput,
                  "it holds '" + entry.name + "', which " + kManifestName + " does not list");
    }
    if (listed->second.bytes != entry.bytes ||
        listed->second.executable != ((entry.mode & S_IXUSR) != 0)) {
      throw Error(Errc::Corrupt, "'" + entry.name + "' differs from " + std::string(kManifestName));
    }
  }
  if (zip_.entries().size() != manifest_.files.size() + 1) {
    throw Error(Errc::Corrupt, std::string("it lacks files that ") + kManifestName + " lists");
  }
  const uint64_t file_bytes = zip_.file_bytes();
  if (total_bytes > max_unpacked_bytes(file_bytes)) {
    throw Error(Errc::InvalidInput, "its " + format_size(file_bytes) + " unpack to " +
                                        format_size(total_bytes) + ", which is suspicious");
  }
}

std::string BundleReader::read_text(const std::string& name) {
  const auto& entries = zip_.entries();
  const auto found = std::ranges::find(entries, name, &ZipEntry::name);
  if (found == entries.end() || !manifest_.files.contains(name)) {
    throw Error(Errc::NotFound, path_.string() + " holds no " + name);
  }
  std::string text = zip_.read_text(*found, kMaxManifestBytes);
  if (sha256_hex(text) != manifest_.files.at(name).sha256) {
    throw Error(Errc::Corrupt,
                path_.string() + ": '" + name + "' is not what was packed: its checksum differs");
  }
  return text;
}

void BundleReader::check_size(const fs::path& folder) const {
  uint64_t total_bytes = 0;
  for (const auto& [name, file] : manifest_.files) total_bytes += file.bytes;
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  if (unknown || space.available >= total_bytes) return;
  throw Error(Errc::InvalidInput, path_.string() + " unpacks to " + format_size(total_bytes) +
                                      ", but " + folder.parent_path().string() + " has room for " +
                                      format_size(space.available));
}

void BundleReader::write_files(const fs::path& folder) {
  for (const ZipEntry& entry : zip_.entries()) {
    const fs::path path = folder / entry.name;
    make_directories(path.parent_path());
    if (entry.name == kManifestName) {
      write_file_atomic(path, to_json(manifest_).dump(1) + "\n");
    } else {
      write_entry(zip_, entry, manifest_.files.at(entry.name).sha256, path);
    }
  }
}

void BundleReader::unpack(const fs::path& folder) {
  const fs::path target = free_place(folder);
  const TemporaryFolder temporary(target.parent_path() /
                                  ("." + target.filename().string() + ".tmp"));
  try {
    check_size(temporary.path());
    write_files(temporary.path());
  } catch (const Error& error) {
    throw Error(error.code(), path_.string() + " was not unpacked: " + error.what());
  }
  if (::rename(temporary.path().c_str(), target.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) throw taken(target);
    throw_errno("cannot create " + target.string(), errno);
  }
  sync_directory(target.parent_path());
}

std::optional<fs::path> unpacked_bundle(const fs::path& workflow) {
  const fs::path file = fs::absolute(workflow).lexically_normal();
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  const uid_t owner = info.st_uid;
  for (fs::path folder = file.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    // Other users may create such files in folders above, such as /tmp, so the search ends there.
    if (::lstat(folder.c_str(), &info) != 0 || info.st_uid != owner) return std::nullopt;
    const fs::path manifest = folder / kManifestName;
    if (::lstat(manifest.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != owner) {
      continue;
    }
    if (folder / read_manifest(folder).workflow == file) return folder;
  }
  return std::nullopt;
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path file = folder / kManifestName;
  try {
    return parse_manifest(read_file(file, kMaxManifestBytes));
  } catch (const Error& error) {
    throw Error(error.code(), file.string() + ": " + error.what());
  }
}

}  // namespace dlflow
