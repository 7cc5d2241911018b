#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/digest.h"

/// The source of an image, and its present state.
namespace dlflow {

/// The parts of `images.NAME.from`.
struct ImageSource {
  enum class Kind {
    DockerArchive,  ///< docker-archive:FILE, from `docker save` or `podman save`
    Oci,            ///< oci:FOLDER, or a tar of such a folder
    Registry,       ///< docker://NAME
    Folder,         ///< dir:FOLDER, a root file system that is used in place
  };
  Kind kind = Kind::Folder;
  std::filesystem::path path;  ///< absolute; empty for a registry
  std::string name;            ///< "host/repository:tag" of a registry, without the digest
  Digest digest;               ///< the digest of docker://NAME@sha256:…, or empty

  bool operator==(const ImageSource&) const = default;
};

/// Parses `from`, in the form of the workflow; relative paths are relative to `base`.
ImageSource image_source(const std::string& from, const std::filesystem::path& base);

/// The identity of an image: the hash of an archive file, the digest of an OCI folder's
/// manifest, or the hash of all names and contents of a root file system. Throws Error: NotFound if
/// there is no such file or folder, InvalidInput for a registry name without a digest, Corrupt if
/// it is not an image.
/// \param sha256  hashes a file's content; may use remembered hashes.
Digest image_digest(const ImageSource& source,
                    const std::function<std::string(const std::filesystem::path&)>& sha256);

}  // namespace dlflow
