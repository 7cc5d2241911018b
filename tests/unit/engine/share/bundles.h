#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/share/manifest.h"
#include "tests/support/zip_archive.h"

/// Bundles as an attacker, a damaged disk or an ordinary ZIP program would make them.
namespace dlflow::test {

/// Returns the bytes of a ZIP archive of `entries`.
inline std::string zip_of(const std::filesystem::path& folder, const std::vector<Packed>& entries) {
  const std::filesystem::path path = folder / "zip";
  write_zip(path, entries);
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

/// Returns a manifest that lists `files` correctly.
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

/// Returns a manifest followed by `files`.
inline std::vector<Packed> with_manifest(const Manifest& manifest, std::vector<Packed> files) {
  files.insert(files.begin(), {kManifestName, to_json(manifest).dump()});
  return files;
}

}  // namespace dlflow::test
