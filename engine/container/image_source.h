#pragma once

#include <filesystem>
#include <functional>
#include <string>

/// The source of an image, and its present state.
namespace dlflow {

/// The parts of `images.NAME.from`.
struct ImageSource {
  enum class Kind {
    DockerArchive,  ///< docker-archive:FILE, what `docker save` and `podman save` write
    Oci,            ///< oci:FOLDER, or a tar of one
    Registry,       ///< docker://NAME
    Folder,         ///< dir:FOLDER, a root file system that is used where it lies
  };
  Kind kind = Kind::Folder;
  std::filesystem::path path;  ///< absolute; empty for a registry
  std::string name;            ///< "host/repository:tag" of a registry, without the digest
  std::string digest;          ///< the digest of docker://NAME@sha256:…, or empty

  bool operator==(const ImageSource&) const = default;
};

/// The parts of `from`, which has the form of the workflow; relative paths are relative to `base`.
ImageSource image_source(const std::string& from, const std::filesystem::path& base);

/// "sha256:…", the identity of an image: of an archive the hash of the file, of an OCI folder the
/// digest of its manifest, of a root file system the hash of all names and contents.
/// Throws Error: NotFound if there is no such file or folder, InvalidInput for a name in a registry
/// without a digest, Corrupt if it is no image.
/// \param sha256  of a file's content; may remember.
std::string image_digest(const ImageSource& source,
                         const std::function<std::string(const std::filesystem::path&)>& sha256);

}  // namespace dlflow
