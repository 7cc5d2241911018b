#include "engine/share/bundle.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "base/units.h"
#include "engine/share/zip_reader.h"
#include "engine/share/zip_writer.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

PackedFile describe(const BundleFile& file) {
  if (file.source.empty()) return {sha256_hex(file.text), file.text.size(), false};
  const fs::perms mode = fs::status(file.source).permissions();
  return {sha256_file(file.source), fs::file_size(file.source),
          (mode & fs::perms::owner_exec) != fs::perms::none};
}

/// The files by name, each once.
std::vector<BundleFile> sorted(std::vector<BundleFile> files) {
  std::ranges::stable_sort(files, {}, &BundleFile::name);
  const auto twice = std::ranges::unique(files, {}, &BundleFile::name);
  files.erase(twice.begin(), twice.end());
  if (files.size() >= kMaxZipEntries) {  // one more for the manifest
    throw Error(Errc::InvalidInput, format_count(files.size()) +
                                        " files are too many for a bundle; put those that belong "
                                        "together into archives");
  }
  for (const BundleFile& file : files) {
    if (path_is_safe(file.name)) continue;
    throw Error(Errc::InvalidInput, "'" + file.name +
                                        "' cannot be packed: its name is too long, is not UTF-8, "
                                        "or has a control character or a backslash");
  }
  return files;
}

void write_file(ZipWriter& zip, const BundleFile& file, const PackedFile& described) {
  std::string written;
  if (file.source.empty()) {
    written = zip.add(file.name, file.text);
  } else {
    const auto content = open_file(file.source);
    written = zip.add(file.name, described.executable, *content, described.bytes);
  }
  if (written != described.sha256) {
    throw Error(Errc::InvalidInput, file.source.string() + " changed while it was packed");
  }
}

/// Makes the complete file `made` the file `target`.
void put_in_place(const fs::path& made, const fs::path& target) {
  if (!is_new_or_regular(target)) return copy_content(made, target);
  const FileDescriptor file(::open(made.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0 || ::rename(made.c_str(), target.c_str()) != 0) {
    throw_errno("cannot write " + target.string(), errno);
  }
}

}  // namespace

Manifest write_bundle(const Bundle& bundle, const fs::path& file) {
  Manifest manifest = bundle.manifest;
  const std::vector<BundleFile> files = sorted(bundle.files);
  for (const BundleFile& each : files) manifest.files[each.name] = describe(each);

  const TemporaryFolder temporary(file.string() + ".tmp");
  const fs::path made = temporary.path() / "bundle";
  ZipWriter zip(made);
  zip.add(kManifestName, to_json(manifest).dump(1) + "\n");
  for (const BundleFile& each : files) write_file(zip, each, manifest.files.at(each.name));
  zip.close();
  put_in_place(made, file);
  return manifest;
}

}  // namespace dlflow
