#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/container/image_source.h"

/// The contents of an image of any format: layers and a few settings.
namespace dlflow {

struct ImageContents {
  std::vector<std::filesystem::path> layers;       ///< bottom first; tars, perhaps gzipped
  std::map<std::string, std::string> environment;  ///< `ENV` of its Dockerfile
};

/// Reads an image from files. A single file is unpacked below `work`. Everything with a digest is
/// verified. Throws Error: Corrupt naming the damaged part, InvalidInput if it is not such an image
/// or not for this kind of machine.
ImageContents image_contents(const ImageSource& source, const std::filesystem::path& work);

/// The contents of an OCI layout (blobs/ and index.json) whose manifest, or list of
/// manifests, has this digest.
ImageContents oci_contents(const std::filesystem::path& layout, const Digest& digest);

/// The digest of the one manifest in an OCI layout that is for this kind of machine.
Digest oci_manifest_digest(const std::filesystem::path& layout);

/// In an image index (a list of manifests): the digest of the manifest for this kind of machine.
/// `what` is for messages.
Digest manifest_for_this_machine(const std::string& index, const std::string& what);

/// Whether a manifest is a list of manifests.
bool is_image_index(const std::string& manifest);

/// A part of an image.
struct Blob {
  Digest digest;
  uint64_t bytes = 0;  ///< from the manifest
};

/// The blobs of a manifest: the configuration first, then the layers.
std::vector<Blob> blobs_of(const std::string& manifest);

/// layout/blobs/sha256/HEX
std::filesystem::path blob_path(const std::filesystem::path& layout, const Digest& digest);

}  // namespace dlflow
