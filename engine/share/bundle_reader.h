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
  /// Throws Error with the name of `file` for everything that a bundle must not be: see ZipReader;
  /// a file that is missing, or that the manifest does not list or lists with another size or mode;
  /// and more than a reasonable archive of this size can hold.
  explicit BundleReader(const std::filesystem::path& file);

  const Manifest& manifest() const { return manifest_; }
  uint64_t file_bytes() const { return zip_.file_bytes(); }

  /// The content of a file of the manifest, whose checksum must fit. Throws Error.
  std::string read_text(const std::string& name);

  /// Makes the folder `folder`, which must be empty or must not exist, with all files of the
  /// bundle: completely or not at all. Every checksum is compared. Throws Error.
  void unpack(const std::filesystem::path& folder);

 private:
  void check_entries() const;
  void check_size(const std::filesystem::path& folder) const;
  void write_files(const std::filesystem::path& folder);

  std::filesystem::path path_;
  ZipReader zip_;
  Manifest manifest_;
};

/// The folder of the unpacked bundle to which `workflow` belongs, if there is one.
std::optional<std::filesystem::path> unpacked_bundle(const std::filesystem::path& workflow);

/// The manifest of an unpacked bundle. Throws Error.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace dlflow
