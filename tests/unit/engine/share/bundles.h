#pragma once

#include <minizip/zip.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/share/manifest.h"

/// Bundles as an attacker, a damaged disk or an ordinary ZIP program would make them.
namespace dlflow::test {

struct Packed {
  std::string name;
  std::string content = {};
  unsigned mode = S_IFREG | 0644;
  int method = Z_DEFLATED;
  unsigned flags = 0;
};

/// A ZIP archive of `entries` as it is on disk.
inline std::string zip_of(const std::filesystem::path& folder, const std::vector<Packed>& entries) {
  const std::filesystem::path path = folder / "zip";
  zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  DLFLOW_CHECK(zip != nullptr);
  for (const Packed& entry : entries) {
    zip_fileinfo info{};
    info.external_fa = uLong(entry.mode) << 16;
    constexpr uLong kMadeByUnix = 3 << 8;
    DLFLOW_CHECK(::zipOpenNewFileInZip4_64(zip, entry.name.c_str(), &info, nullptr, 0, nullptr, 0,
                                           nullptr, entry.method, 1, 0, -MAX_WBITS, DEF_MEM_LEVEL,
                                           Z_DEFAULT_STRATEGY, nullptr, 0, kMadeByUnix, entry.flags,
                                           0) == ZIP_OK);
    DLFLOW_CHECK(::zipWriteInFileInZip(zip, entry.content.data(), unsigned(entry.content.size())) ==
                 ZIP_OK);
    DLFLOW_CHECK(::zipCloseFileInZip(zip) == ZIP_OK);
  }
  DLFLOW_CHECK(::zipClose(zip, nullptr) == ZIP_OK);
  std::string bytes = read_file(path);
  std::filesystem::remove(path);
  return bytes;
}

inline constexpr const char* kSharedWorkflow =
    "name: shared\nparams: {n: 1}\nsteps:\n  a: {run: ./a.sh, inputs: [a.sh]}\n";

/// A workflow with one script.
inline std::vector<Packed> good_files() {
  return {{"workflow/a.sh", "#!/bin/sh\necho hello\n", S_IFREG | 0755},
          {"workflow/w.yaml", kSharedWorkflow}};
}

/// A manifest that lists `files` as they are.
inline Manifest manifest_of(const std::vector<Packed>& files) {
  Manifest manifest;
  manifest.dlflow = "0.1.0";
  manifest.name = "shared";
  manifest.workflow = "workflow/w.yaml";
  for (const Packed& file : files) {
    manifest.files[file.name] = {sha256_hex(file.content), file.content.size(),
                                 (file.mode & 0111) != 0};
  }
  return manifest;
}

/// `files` behind a manifest.
inline std::vector<Packed> with_manifest(const Manifest& manifest, std::vector<Packed> files) {
  files.insert(files.begin(), {kManifestName, to_json(manifest).dump()});
  return files;
}

}  // namespace dlflow::test
