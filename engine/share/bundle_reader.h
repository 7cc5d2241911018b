#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/share/manifest.h"
#include "engine/share/zip_reader.h"

/// A bundle from an untrusted source.
namespace dlflow {

/// Whether `file` begins as a ZIP archive, which no YAML text does.
bool is_bundle(const std::filesystem::path& file);

class BundleReader {
 public:
  /// Opens the bundle and compares its directory with its manifest, without reading contents.
  /// Throws Error with the name of `file` if the archive is refused by ZipReader, if a file is
  /// missing, unlisted, or has another size or mode than in the manifest, and if there is more than
  /// a reasonable archive of this size can hold.
  explicit BundleReader(const std::filesystem::path& file);

  const Manifest& manifest() const { return manifest_; }
  uint64_t file_bytes() const { return zip_.file_bytes(); }

  /// The content of a file in the manifest, with its checksum verified. Throws Error.
  std::string read_text(const std::string& name);

  /// Creates the folder `folder`, which must be empty or missing, with all files of the bundle:
  /// completely or not at all. Verifies every checksum. Throws Error.
  void unpack(const std::filesystem::path& folder);

 private:
  void check_entries() const;
  void check_size(const std::filesystem::path& folder) const;
  void write_files(const std::filesystem::path& folder);

  std::filesystem::path path_;
  ZipReader zip_;
  Manifest manifest_;
};

/// The unpacked bundle's folder that `workflow` belongs to, if any.
std::optional<std::filesystem::path> unpacked_bundle(const std::filesystem::path& workflow);

/// The manifest of an unpacked bundle. Throws Error.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace dlflow
